//! Every upstream rule is used, replaced, refused or at least listed.

use std::collections::{BTreeMap, BTreeSet};

use abide_secrets::RuleSet;

const UPSTREAM: &str = include_str!("../../data/upstream.txt");
const TRIAGE: &str = include_str!("../../data/triage.txt");

#[test]
fn every_upstream_rule_is_in_the_triage() {
    let upstream: BTreeSet<&str> = UPSTREAM.lines().filter(|line| !line.starts_with('#')).collect();
    let mut decided = BTreeMap::new();
    let rules = RuleSet::load().unwrap();
    let own: BTreeSet<&str> = rules.rules().map(|rule| rule.id).collect();
    for line in TRIAGE.lines().filter(|line| !line.starts_with('#')) {
        let (decision, rest) = line.split_once(' ').unwrap();
        let id = rest.split([' ', ':']).next().unwrap();
        match decision {
            "used" | "unseen" => assert_eq!(rest, id),
            "refused" => assert!(rest.len() > id.len() + 10, "{id} has no reason"),
            "replaced" => {
                let by = rest.split(" by ").nth(1).unwrap_or_else(|| panic!("{line}"));
                assert!(own.contains(by) || by == "private-key (in code)", "{line}");
            }
            other => panic!("{other}"),
        }
        assert!(decided.insert(id, decision).is_none(), "{id} is listed twice");
    }
    let listed: BTreeSet<&str> = decided.keys().copied().collect();
    assert_eq!(listed, upstream);
    assert_eq!(decided.get("generic-api-key"), Some(&"refused"));
    let used = decided.values().filter(|decision| **decision == "used").count();
    assert!(used >= 300, "{used}");
}
