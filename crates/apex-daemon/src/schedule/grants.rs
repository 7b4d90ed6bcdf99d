//! Who may be what: a class above `normal` is given, not taken.
//!
//! Without a daemon all programs of one user are his own affair, and what he asks for is granted. A daemon
//! serves several users and grants what its configuration says. Who a program is comes from the kernel
//! (`/proc`), never from the page.

use apex_core::small_file::{self, read_text};
use apex_policy::schedule::{Class, DEFAULT_POLICY};
use nix::unistd::User;
use serde::Deserialize;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The document that configures a daemon.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The policy.
    pub policy: String,
    /// Group whose members may take part; only the daemon's own user if left out.
    pub group: Option<String>,
    /// UUIDs of the GPUs, if those of this machine's driver are not meant.
    pub gpus: Vec<String>,
    /// Who may be what; the first rule that fits a program counts.
    pub allow: Vec<Rule>,
}

impl Default for Config {
    fn default() -> Config {
        Config { policy: DEFAULT_POLICY.into(), group: None, gpus: Vec::new(), allow: Vec::new() }
    }
}

/// One rule: programs of this user, with this executable, may be of this class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rule {
    /// Name or number of the user; any if left out.
    pub user: Option<String>,
    /// Absolute path of the executable; any if left out.
    pub executable: Option<PathBuf>,
    /// The highest class.
    pub class: String,
}

/// A program, as the kernel knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// Number of its user.
    pub user: u32,
    /// Its executable; none where it may not be read.
    pub executable: Option<PathBuf>,
}

impl Who {
    /// Of a process; none if it is gone.
    #[must_use]
    pub fn is(pid: u32) -> Option<Who> {
        let place = PathBuf::from(format!("/proc/{pid}"));
        let user = std::fs::metadata(&place).ok()?.uid();
        Some(Who { user, executable: std::fs::read_link(place.join("exe")).ok() })
    }
}

/// How classes are granted.
#[derive(Clone, Debug)]
pub enum Grants {
    /// Programs of this user get what they ask for, others at most `normal`.
    OfUser(u32),
    /// By rules.
    Listed(Vec<Allowed>),
}

/// A rule that was understood.
#[derive(Clone, Debug)]
pub struct Allowed {
    user: Option<u32>,
    executable: Option<PathBuf>,
    class: Class,
}

impl Grants {
    /// By the rules of a configuration, which says what is wrong with them.
    pub fn listed(rules: &[Rule]) -> Result<Grants, String> {
        let understood = rules.iter().map(|rule| {
            let class = rule.class.parse()?;
            let user = rule.user.as_deref().map(user_number).transpose()?;
            let executable = rule.executable.clone();
            if let Some(path) = executable.as_deref().filter(|path| !path.is_absolute()) {
                return Err(format!("{} is not an absolute path", path.display()));
            }
            Ok(Allowed { user, executable, class })
        });
        Ok(Grants::Listed(understood.collect::<Result<_, String>>()?))
    }

    /// The class that a program gets.
    #[must_use]
    pub fn class(&self, who: &Who, asked: Class) -> Class {
        let most = match self {
            Grants::OfUser(user) if *user == who.user => Class::Latency,
            Grants::OfUser(_) => Class::Normal,
            Grants::Listed(rules) => {
                let fits = |rule: &&Allowed| {
                    rule.user.is_none_or(|user| user == who.user)
                        && (rule.executable.is_none() || rule.executable == who.executable)
                };
                rules.iter().find(fits).map_or(Class::Normal, |rule| rule.class)
            }
        };
        asked.min(most)
    }
}

/// Reads a daemon's configuration; the error says what to change.
pub fn read(path: &Path) -> Result<Config, String> {
    let text = read_text(path, small_file::WRITTEN)
        .map_err(|error| format!("{} is not read: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

fn user_number(name: &str) -> Result<u32, String> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    match User::from_name(name) {
        Ok(Some(user)) => Ok(user.uid.as_raw()),
        _ => Err(format!("there is no user {name}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(user: u32, executable: &str) -> Who {
        Who { user, executable: Some(executable.into()) }
    }

    #[test]
    fn a_user_grants_himself_and_nobody_else() {
        let grants = Grants::OfUser(1000);
        assert_eq!(grants.class(&who(1000, "/bin/a"), Class::Latency), Class::Latency);
        assert_eq!(grants.class(&who(1001, "/bin/a"), Class::Latency), Class::Normal);
        assert_eq!(grants.class(&who(1001, "/bin/a"), Class::Batch), Class::Batch);
    }

    #[test]
    fn a_daemon_grants_what_its_rules_say() {
        let text = r#"{"policy": "priority", "allow": [
            {"executable": "/bin/serve", "user": "1000", "class": "latency"},
            {"user": "1001", "class": "batch"}]}"#;
        let config: Config = serde_json::from_str(text).unwrap();
        assert_eq!((config.policy.as_str(), config.group), ("priority", None));
        let grants = Grants::listed(&config.allow).unwrap();
        assert_eq!(grants.class(&who(1000, "/bin/serve"), Class::Latency), Class::Latency);
        assert_eq!(grants.class(&who(1000, "/bin/other"), Class::Latency), Class::Normal);
        assert_eq!(grants.class(&who(1001, "/bin/serve"), Class::Latency), Class::Batch);
        assert_eq!(grants.class(&who(1002, "/bin/serve"), Class::Latency), Class::Normal);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let rule = |user: &str, executable: &str, class: &str| Rule {
            user: (!user.is_empty()).then(|| user.into()),
            executable: (!executable.is_empty()).then(|| executable.into()),
            class: class.into(),
        };
        assert!(Grants::listed(&[rule("", "", "urgent")]).is_err());
        assert!(Grants::listed(&[rule("nobody-of-this-name", "", "latency")]).is_err());
        assert!(Grants::listed(&[rule("", "serve", "latency")]).is_err());
        assert!(serde_json::from_str::<Config>(r#"{"polcy": "fair"}"#).is_err());
    }
}
