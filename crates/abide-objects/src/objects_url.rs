//! The URL of an object store.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, percent_encode};

use crate::ObjectsError;

/// The characters that are percent-encoded in the path of a directory.
const ESCAPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Where objects are stored. It contains no secret and may be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectsUrl {
    /// In a bucket of an S3-compatible server.
    S3 {
        /// The bucket.
        bucket: String,
        /// The prefix of all object names, without a `/` at either end; may be empty.
        prefix: String,
    },
    /// In a directory.
    Directory(PathBuf),
}

impl ObjectsUrl {
    /// Parses `s3://bucket/prefix` or `file:///directory`. Refuses a URL with credentials.
    pub fn parse(text: &str) -> Result<Self, ObjectsError> {
        let (scheme, rest) = text.split_once("://").ok_or(ObjectsError::Form)?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (host, path) = rest.split_at(end);
        if host.contains('@') {
            return Err(ObjectsError::Credentials);
        }
        if path.contains(['?', '#']) {
            return Err(ObjectsError::Parameters);
        }
        match scheme.to_ascii_lowercase().as_str() {
            "s3" => {
                let prefix = path.trim_matches('/');
                if !is_literal_url_name(host)
                    || !(prefix.is_empty() || prefix.split('/').all(is_literal_url_name))
                {
                    return Err(ObjectsError::Form);
                }
                Ok(Self::S3 { bucket: host.to_owned(), prefix: prefix.to_owned() })
            }
            // A relative path would be read as a host.
            "file" if matches!(host, "" | "localhost") && path.starts_with('/') => {
                let path: Vec<u8> = percent_decode_str(path).collect();
                Ok(Self::Directory(Path::new(OsStr::from_bytes(&path)).components().collect()))
            }
            _ => Err(ObjectsError::Form),
        }
    }

    /// Whether this build can reach such objects. Sends no request.
    pub fn check_supported(&self) -> Result<(), ObjectsError> {
        match self {
            Self::S3 { .. } if cfg!(not(feature = "s3")) => {
                Err(ObjectsError::WithoutS3 { place: self.to_string() })
            }
            Self::S3 { .. } | Self::Directory(_) => Ok(()),
        }
    }
}

/// Names are taken literally: one that would need encoding is refused.
fn is_literal_url_name(part: &str) -> bool {
    let plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'=');
    !matches!(part, "" | "." | "..") && part.bytes().all(plain)
}

impl FromStr for ObjectsUrl {
    type Err = ObjectsError;

    fn from_str(text: &str) -> Result<Self, ObjectsError> {
        Self::parse(text)
    }
}

impl fmt::Display for ObjectsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::S3 { bucket, prefix } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            Self::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
            Self::Directory(path) => {
                write!(f, "file://{}", percent_encode(path.as_os_str().as_bytes(), ESCAPED))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_and_written() {
        for text in
            ["s3://bucket", "s3://team.objects/a/b-c", "file:///mnt/share%20one", "file:///"]
        {
            assert_eq!(ObjectsUrl::parse(text).unwrap().to_string(), text);
        }
        let read = ObjectsUrl::parse("s3://bucket/prefix/").unwrap();
        let expected = ObjectsUrl::S3 { bucket: "bucket".into(), prefix: "prefix".into() };
        assert_eq!(read, expected);
        for text in [
            "file:///mnt/share%20one",
            "file://localhost/mnt/share one/",
            "FILE:///mnt/./share%20one",
        ] {
            let read = ObjectsUrl::parse(text).unwrap();
            assert_eq!(read, ObjectsUrl::Directory("/mnt/share one".into()), "{text}");
        }
    }

    #[test]
    fn any_directory_can_be_written() {
        let every: Vec<u8> = (1..=u8::MAX).collect();
        let directory = ObjectsUrl::Directory(Path::new("/").join(OsStr::from_bytes(&every)));
        let text = directory.to_string();
        assert!(text.is_ascii() && !text.contains(char::is_whitespace), "{text}");
        assert_eq!(ObjectsUrl::parse(&text).unwrap(), directory);
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in [
            "bucket",
            "s3://",
            "s3:///prefix",
            "s3://b/a//b",
            "s3://b/ä",
            "s3://b/a/../b",
            "s3://b:90/p",
            "http://b/p",
            "file://host/p",
            "file://",
            "",
        ] {
            assert!(matches!(ObjectsUrl::parse(text), Err(ObjectsError::Form)), "{text}");
        }
        for text in ["s3://bucket/prefix?region=x", "s3://bucket?region=x", "s3://bucket/prefix#x"]
        {
            let parameters = ObjectsUrl::parse(text);
            assert!(matches!(parameters, Err(ObjectsError::Parameters)), "{text}");
        }
    }

    #[test]
    fn credentials_are_refused_and_not_repeated() {
        let error = ObjectsUrl::parse("s3://key:hidden@bucket/prefix").unwrap_err();
        assert!(matches!(error, ObjectsError::Credentials));
        assert!(!format!("{error} {error:?}").contains("hidden"));
    }

    #[test]
    fn a_build_says_what_it_cannot_reach() {
        ObjectsUrl::parse("file:///mnt/share").unwrap().check_supported().unwrap();
        let found = ObjectsUrl::parse("s3://bucket/prefix").unwrap().check_supported();
        if cfg!(feature = "s3") {
            found.unwrap();
        } else {
            let said = "cannot reach s3://bucket/prefix: this build of abide has no S3 support";
            assert_eq!(found.unwrap_err().to_string(), said);
        }
    }
}
