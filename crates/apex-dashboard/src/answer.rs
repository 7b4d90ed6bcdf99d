//! The forms of an answer: a document, or one sentence that says why there is none.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

pub(crate) const FORBIDDEN: StatusCode = StatusCode::FORBIDDEN;
pub(crate) const NOT_FOUND: StatusCode = StatusCode::NOT_FOUND;
pub(crate) const UNAUTHORIZED: StatusCode = StatusCode::UNAUTHORIZED;
pub(crate) const WRONG: StatusCode = StatusCode::BAD_REQUEST;
pub(crate) const FAILED: StatusCode = StatusCode::INTERNAL_SERVER_ERROR;

/// A document as the commands print it, byte for byte.
pub(crate) fn document(document: &impl Serialize) -> Response {
    match serde_json::to_string_pretty(document) {
        Ok(text) => json(text + "\n"),
        Err(error) => refuse(FAILED, &error.to_string()),
    }
}

/// A document that no command prints, without spaces.
pub(crate) fn compact(document: &impl Serialize) -> Response {
    match serde_json::to_string(document) {
        Ok(text) => json(text),
        Err(error) => refuse(FAILED, &error.to_string()),
    }
}

/// A document that is text already.
pub(crate) fn json(text: String) -> Response {
    ([(CONTENT_TYPE, "application/json")], text).into_response()
}

/// Why there is no answer.
pub(crate) fn refuse(status: StatusCode, why: &str) -> Response {
    let text = serde_json::json!({ "error": why }).to_string() + "\n";
    (status, json(text)).into_response()
}
