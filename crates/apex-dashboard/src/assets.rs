//! The page, as it lies in `page/`: part of the binary, so nothing of it is looked for on disk or fetched from elsewhere.
//!
//! It is written by hand and served as it is written. There is no step between the two, so there is nothing that could
//! be stale; the browser's own modules hold its parts together.

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

/// A file of the page.
#[derive(Debug)]
pub(crate) struct Asset {
    pub(crate) path: &'static str,
    kind: &'static str,
    pub(crate) content: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

/// Makes the table: each line is an address, a kind and a file.
macro_rules! assets {
    ($($path:literal $kind:ident $file:literal;)+) => {
        /// Every file of the page.
        pub(crate) static ASSETS: &[Asset] = &[
            $(Asset { path: $path, kind: $kind, content: include_str!(concat!("../page/", $file)) },)+
        ];
    };
}

assets! {
    "/" HTML "index.html";
    "/style.css" STYLE "style.css";
    "/icon.svg" IMAGE "icon.svg";
    "/app.js" SCRIPT "app.js";
    "/breakdown.js" SCRIPT "breakdown.js";
    "/chart.js" SCRIPT "chart.js";
    "/compare.js" SCRIPT "compare.js";
    "/dom.js" SCRIPT "dom.js";
    "/live.js" SCRIPT "live.js";
    "/plane.js" SCRIPT "plane.js";
    "/roofline.js" SCRIPT "roofline.js";
    "/scatter.js" SCRIPT "scatter.js";
    "/scheduler.js" SCRIPT "scheduler.js";
    "/session.js" SCRIPT "session.js";
    "/sessions.js" SCRIPT "sessions.js";
    "/streams.js" SCRIPT "streams.js";
    "/tables.js" SCRIPT "tables.js";
    "/timeline.js" SCRIPT "timeline.js";
    "/units.js" SCRIPT "units.js";
}

pub(crate) fn answer(asset: &'static Asset) -> Response {
    ([(CONTENT_TYPE, asset.kind)], asset.content).into_response()
}

#[cfg(test)]
mod tests {
    use super::ASSETS;
    use std::path::Path;

    #[test]
    fn every_file_of_the_page_is_served_and_names_no_other_site() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let mut served: Vec<String> = ASSETS
            .iter()
            .map(|asset| match asset.path {
                "/" => "index.html".into(),
                path => path.trim_start_matches('/').to_owned(),
            })
            .collect();
        served.sort();
        assert_eq!(served, files);
        for asset in ASSETS {
            for word in ["//cdn", "https://", "innerHTML", "insertAdjacentHTML", "eval(", "style="]
            {
                assert!(!asset.content.contains(word), "{word} in {}", asset.path);
            }
        }
    }
}
