//! What a hook tells and what the agent's file tells is in the conversation once, whichever comes first.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::hooked_agent::{HookedAgent, lines_after, lines_of_turn};

const WHOLE: [&str; 4] = ["user: change a", "model: calls c1", "result c1", "model: All done."];

/// Every way in which steps of two sorts can follow each other; true: a hook.
fn interleavings(hooks: usize, lines: usize) -> Vec<Vec<bool>> {
    if hooks == 0 || lines == 0 {
        return vec![[vec![true; hooks], vec![false; lines]].concat()];
    }
    let with = |first, rest: Vec<Vec<bool>>| {
        rest.into_iter().map(move |rest| [vec![first], rest].concat()).collect::<Vec<_>>()
    };
    let mut all = with(true, interleavings(hooks - 1, lines));
    all.extend(with(false, interleavings(hooks, lines - 1)));
    all
}

#[test]
fn a_turn_is_there_once_in_whatever_order_hooks_and_lines_come() {
    let all = interleavings(4, 4);
    assert_eq!(all.len(), 70);
    let next = AtomicUsize::new(0);
    // Many at once, since a recorder waits a while for the last message.
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                while let Some(order) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    one_order(order);
                }
            });
        }
    });
}

fn one_order(order: &[bool]) {
    let agent = HookedAgent::new();
    let hooks = [
        agent.prompted("t1", "change a"),
        agent.called("t1", "c1"),
        agent.stopped("t1", "All done."),
        agent.ended(),
    ];
    let lines = lines_of_turn("change a", "c1", "All done.");
    let (mut hooks, mut lines) = (hooks.iter(), lines.iter());
    for is_hook in order {
        if *is_hook {
            agent.tells(hooks.next().unwrap());
        } else {
            agent.writes(lines.next().unwrap());
        }
    }
    // Somebody goes on with the session.
    agent.tells(&agent.started());
    agent.sweeps();
    let mut context = agent.context();
    // Where the file comes after its hooks, the order is that in which abide heard of it.
    context.sort_unstable();
    let mut whole = WHOLE.map(str::to_owned);
    whole.sort_unstable();
    assert_eq!(context, whole, "{order:?}");
    assert_eq!(agent.turns(), ["+", "completed"], "{order:?}");
}

#[test]
fn lines_that_come_when_agents_write_them_are_in_their_order() {
    let agent = HookedAgent::new();
    for (turn, prompt, call, last, before) in [
        ("t1", "change a", "c1", "All done.", None),
        ("t2", "and b", "c2", "That too.", Some("c1")),
    ] {
        let [first, second, third, fourth] = lines_after(before, prompt, call, last);
        agent.tells(&agent.prompted(turn, prompt));
        agent.writes(&first);
        agent.writes(&second);
        agent.tells(&agent.called(turn, call));
        agent.writes(&third);
        // The last one a moment after the turn's end.
        std::thread::scope(|scope| {
            scope.spawn(|| agent.tells(&agent.stopped(turn, last)));
            agent.writes(&fourth);
        });
    }
    agent.sweeps();
    let second = ["user: and b", "model: calls c2", "result c2", "model: That too."];
    assert_eq!(agent.context(), [WHOLE, second].concat());
    assert_eq!(agent.turns(), ["+", "completed", "+", "completed"]);
}

#[test]
fn without_a_file_everything_is_there_that_was_told() {
    let agent = HookedAgent::new();
    agent.tells(&agent.started());
    agent.tells(&agent.prompted("t1", "change a"));
    agent.tells(&agent.called("t1", "c1"));
    agent.tells(&agent.stopped("t1", "All done."));
    agent.sweeps();
    assert_eq!(agent.context(), WHOLE);
    // A file that appears later tells nothing twice.
    for line in lines_of_turn("change a", "c1", "All done.") {
        agent.writes(&line);
        agent.sweeps();
        let mut context = agent.context();
        context.sort_unstable();
        let mut whole = WHOLE.map(str::to_owned);
        whole.sort_unstable();
        assert_eq!(context, whole);
    }
    assert_eq!(agent.count(&abide::Kind::TOOL_CALLED), 1);
    assert_eq!(agent.turns(), ["+", "completed"]);
}

/// How the same words come in two turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileLines {
    Never,
    BeforeTheEnd,
    AfterTheEnd,
}

#[test]
fn the_same_words_in_two_turns_are_there_twice() {
    for lines in [FileLines::Never, FileLines::BeforeTheEnd, FileLines::AfterTheEnd] {
        let agent = HookedAgent::new();
        for (turn, call, before) in [("t1", "c1", None), ("t2", "c2", Some("c1"))] {
            agent.tells(&agent.prompted(turn, "go on"));
            let written = lines_after(before, "go on", call, "Yes.");
            if lines == FileLines::BeforeTheEnd {
                written.iter().for_each(|line| agent.writes(line));
            }
            agent.tells(&agent.stopped(turn, "Yes."));
            if lines == FileLines::AfterTheEnd {
                written.iter().for_each(|line| agent.writes(line));
            }
        }
        agent.sweeps();
        let mut context = agent.context();
        context.sort_unstable();
        let mut all = vec!["user: go on", "model: Yes.", "user: go on", "model: Yes."];
        if lines != FileLines::Never {
            all.extend(["model: calls c1", "result c1", "model: calls c2", "result c2"]);
        }
        all.sort_unstable();
        assert_eq!(context, all, "{lines:?}");
        assert_eq!(agent.turns(), ["+", "completed", "+", "completed"], "{lines:?}");
    }
}

#[test]
fn a_prompt_after_an_interrupt_is_there_once() {
    for second in ["two", "one"] {
        for is_written in [false, true] {
            let agent = HookedAgent::new();
            agent.tells(&agent.prompted("t1", "one"));
            let mut wanted = vec!["user: one".to_owned()];
            if is_written {
                let [prompt, call, result, _] = lines_of_turn("one", "c1", "");
                [prompt, call, result].iter().for_each(|line| agent.writes(line));
                wanted.extend(["model: calls c1".to_owned(), "result c1".to_owned()]);
                // The agent tells nothing of the interrupt, and writes the next prompt before the hook
                // is recorded.
                let [next, ..] = lines_after(Some("c1"), second, "c2", "");
                agent.writes(&next.replace("c1-4", "c1-3"));
            }
            agent.tells(&agent.prompted("t2", second));
            wanted.push(format!("user: {second}"));
            assert_eq!(agent.context(), wanted, "{second}, written: {is_written}");
            assert_eq!(agent.turns(), ["+", "interrupted", "+"]);
        }
    }
}
