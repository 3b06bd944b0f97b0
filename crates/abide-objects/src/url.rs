//! Where objects are kept, as a URL.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use url::Url;

use crate::ObjectsError;

/// Where objects are kept. It holds no secret, and may be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectsUrl {
    /// In a bucket of an S3-compatible server.
    S3 {
        /// Which one.
        bucket: String,
        /// What the names of all objects begin with, without a `/` at either end; may be empty.
        prefix: String,
    },
    /// In a directory.
    Directory(PathBuf),
}

impl ObjectsUrl {
    /// Reads `s3://bucket/prefix` or `file:///directory`. One with credentials is refused.
    pub fn parse(text: &str) -> Result<Self, ObjectsError> {
        let url = Url::parse(text).map_err(|_| ObjectsError::Form)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(ObjectsError::Credentials);
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(ObjectsError::Parameters);
        }
        match url.scheme() {
            "s3" if url.port().is_none() => {
                let bucket = url.host_str().filter(|bucket| !bucket.is_empty());
                let prefix = url.path().trim_matches('/');
                // A name is taken as it is: what would be written in another way is refused.
                let plain = |part: &str| {
                    !part.is_empty()
                        && part.bytes().all(|byte| {
                            byte.is_ascii_alphanumeric()
                                || matches!(byte, b'-' | b'_' | b'.' | b'=')
                        })
                };
                if !prefix.is_empty() && !prefix.split('/').all(plain) {
                    return Err(ObjectsError::Form);
                }
                let bucket = bucket.filter(|bucket| plain(bucket)).ok_or(ObjectsError::Form)?;
                Ok(Self::S3 { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
            }
            "file" => {
                // A relative one would be read as that of a host.
                let path = url.to_file_path().map_err(|()| ObjectsError::Form)?;
                Ok(Self::Directory(path))
            }
            _ => Err(ObjectsError::Form),
        }
    }
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
            Self::Directory(path) => match Url::from_directory_path(path) {
                Ok(url) => f.write_str(url.as_str().trim_end_matches('/')),
                Err(()) => write!(f, "file://{}", path.display()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_and_written() {
        for text in ["s3://bucket", "s3://team.objects/a/b-c", "file:///mnt/share%20one"] {
            assert_eq!(ObjectsUrl::parse(text).unwrap().to_string(), text);
        }
        let read = ObjectsUrl::parse("s3://bucket/prefix/").unwrap();
        let expected = ObjectsUrl::S3 { bucket: "bucket".into(), prefix: "prefix".into() };
        assert_eq!(read, expected);
        let read = ObjectsUrl::parse("file:///mnt/share%20one").unwrap();
        assert_eq!(read, ObjectsUrl::Directory("/mnt/share one".into()));
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in ["bucket", "s3://", "s3:///prefix", "s3://b/a//b", "s3://b/ä", "http://b/p", ""]
        {
            assert!(matches!(ObjectsUrl::parse(text), Err(ObjectsError::Form)), "{text}");
        }
        let parameters = ObjectsUrl::parse("s3://bucket/prefix?region=x");
        assert!(matches!(parameters, Err(ObjectsError::Parameters)));
    }

    #[test]
    fn credentials_are_refused_and_not_repeated() {
        let error = ObjectsUrl::parse("s3://key:hidden@bucket/prefix").unwrap_err();
        assert!(matches!(error, ObjectsError::Credentials));
        assert!(!format!("{error} {error:?}").contains("hidden"));
    }
}
