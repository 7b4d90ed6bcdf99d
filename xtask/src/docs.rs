//! The pages and parts of pages that come from tables: rendered here, kept in the repository, compared by `tidy`.
//!
//! The tables of commands come from the command itself: it is built and asked, so that they say what its help says.

use crate::results;
use crate::run::{cargo, root};
use anyhow::{Context, Result, bail};

/// Around what is generated in a page that is otherwise written by hand.
const BEGIN: &str = "<!-- commands: made by cargo xtask docs -->\n";
const END: &str = "<!-- end of commands -->\n";

/// What is generated of one page.
pub(crate) struct Page {
    pub(crate) path: String,
    content: String,
    /// The page holds more, written by hand.
    is_part: bool,
}

impl Page {
    /// Whether the page in the repository says something else.
    pub(crate) fn is_stale(&self) -> Result<bool> {
        let kept = std::fs::read_to_string(root().join(&self.path)).unwrap_or_default();
        Ok(kept != self.renewed(&kept)?)
    }

    /// The whole page with what is generated.
    fn renewed(&self, kept: &str) -> Result<String> {
        if !self.is_part {
            return Ok(self.content.clone());
        }
        let parts = kept.split_once(BEGIN).and_then(|(before, rest)| {
            let (_, after) = rest.split_once(END)?;
            Some((before, after))
        });
        match parts {
            Some((before, after)) => Ok(format!("{before}{BEGIN}{}{END}{after}", self.content)),
            None => bail!("{} has no place for the commands between {BEGIN}and {END}", self.path),
        }
    }
}

/// Every generated page.
pub(crate) fn pages() -> Result<Vec<Page>> {
    let whole = |path: String, content| Page { path, content, is_part: false };
    let table = |path: &str, content| Page { path: path.into(), content, is_part: true };
    let mut pages = vec![
        whole("docs/coverage.md".into(), apex_cuda::coverage_page()),
        whole("docs/knobs.md".into(), apex_core::knobs::page()),
        whole("docs/compatibility.md".into(), apex_ptx::lower::page()),
        table("README.md", command_table("short")?),
        table("docs/guide.md", command_table("long")?),
    ];
    pages.extend(results::pages()?.into_iter().map(|(path, content)| whole(path, content)));
    Ok(pages)
}

/// The table of commands, from the command.
fn command_table(length: &str) -> Result<String> {
    let words = ["run", "--quiet", "--package", "apex-cli", "--bin", "apex", "--", "command-table"];
    let output = cargo(&words).arg(length).output().context("cargo cannot be started")?;
    if !output.status.success() {
        bail!(
            "apex cannot be asked for its commands:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    String::from_utf8(output.stdout).context("the table of commands is no text")
}

/// Writes every page anew.
pub(crate) fn renew() -> Result<()> {
    for page in pages()? {
        let path = root().join(&page.path);
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        std::fs::write(&path, page.renewed(&kept)?)
            .with_context(|| format!("{} is not written", page.path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{BEGIN, END, Page};

    #[test]
    fn a_stale_part_is_found_and_renewed() {
        let page = Page { path: "README.md".into(), content: "| new |\n".into(), is_part: true };
        let of = |table: &str| format!("by hand\n{BEGIN}{table}{END}by hand too\n");
        assert_eq!(page.renewed(&of("| old |\n")).unwrap(), of("| new |\n"));
        assert!(page.renewed("by hand\n").is_err());
    }

    #[test]
    fn a_whole_page_is_renewed() {
        let page = Page { path: "docs/knobs.md".into(), content: "new\n".into(), is_part: false };
        assert_eq!(page.renewed("old\n").unwrap(), "new\n");
    }
}
