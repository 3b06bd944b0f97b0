//! What an agent did to files, taken back.

use std::fs;

use super::lab::AcpLab;
use super::story::turn;

#[test]
fn what_an_agent_did_to_files_is_taken_back() {
    let lab = AcpLab::new();
    let file = lab.env.project().join("a.txt");
    fs::write(&file, "before").unwrap();
    let mut client = lab.proxy_with(&["--checkpoint", "turn"], &[]);
    let session = lab.open(&mut client);
    turn(&mut client, &session, "edit a.txt one; edit new.txt new");
    turn(&mut client, &session, "edit a.txt two");
    assert_eq!(fs::read_to_string(&file).unwrap(), "two");
    assert!(client.close().success());

    lab.env.run(&["rewind", "--to", "turn:1", "--files", "--yes"]).success();
    assert_eq!(fs::read_to_string(&file).unwrap(), "one");
    lab.env.run(&["rewind", "--to", "1", "--files", "--yes"]).success();
    assert_eq!(fs::read_to_string(&file).unwrap(), "before");
    assert!(!lab.env.project().join("new.txt").exists());
    lab.healthy();
}

#[test]
fn a_rewound_conversation_is_what_is_loaded() {
    let lab = AcpLab::new();
    let mut client = lab.proxy_with(&["--checkpoint", "turn"], &[]);
    let session = lab.open(&mut client);
    let told = turn(&mut client, &session, "say alpha");
    turn(&mut client, &session, "say beta");
    assert!(client.close().success());
    lab.env.run(&["rewind", "--to", "turn:1", "--conversation", "--yes"]).success();
    let mut client = lab.proxy(&[]);
    client.initialize();
    let loaded = super::story::conversation(&lab.load(&mut client, &session));
    assert_eq!(loaded, told);
}

#[test]
fn there_are_no_checkpoints_where_none_are_wanted() {
    let lab = AcpLab::new();
    let mut client = lab.proxy_with(&["--checkpoint", "off"], &[]);
    let session = lab.open(&mut client);
    turn(&mut client, &session, "edit a.txt one");
    assert!(client.close().success());
    assert_eq!(lab.count("checkpoint.created"), 0);
    assert_eq!(lab.count("turn.finished"), 1);
}
