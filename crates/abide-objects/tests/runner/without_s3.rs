//! A build without S3 says so.

use abide_objects::{ObjectsError, ObjectsOptions, RemoteObjects};

#[test]
fn objects_on_a_server_are_refused() {
    let url = "s3://bucket/prefix".parse().unwrap();
    let refused = RemoteObjects::open(url, &ObjectsOptions::default()).unwrap_err();
    assert!(matches!(&refused, ObjectsError::WithoutS3 { place } if place == "s3://bucket/prefix"));
    assert!(refused.to_string().contains("this build of abide has no S3 support"), "{refused}");
}
