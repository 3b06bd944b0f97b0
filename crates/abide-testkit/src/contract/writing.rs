//! Writing: what is read is what was written, by one writer at a time.

use std::time::Duration;

use abide_model::{
    Anomaly, AnomalyPolicy, AppendError, Durability, EventRange, Fact, Kind, NewEvent, Seq,
    StoreError, block_on,
};

use super::{NOW, Subject, append, event, kinds, message, new_session, state};

pub(super) fn a_session_is_read_as_it_was_written(subject: &dyn Subject) {
    let store = subject.open();
    let (id, writer) = new_session(&*store);
    let seqs = append(&*writer, vec![message("one"), message("two")]);
    assert_eq!(seqs, [3, 4]);
    writer.close().unwrap();
    drop(writer);
    let again = subject.open();
    let all =
        ["session.created", "writer.opened", "message.added", "message.added", "writer.closed"];
    assert_eq!(kinds(&*again, id), all);
    let reader = again.read(id).unwrap();
    let page = reader.page(EventRange::ALL).unwrap();
    assert!(page.events.iter().zip(1..).all(|(event, seq)| event.seq == Seq(seq)));
    assert!(page.events.is_sorted_by_key(|event| event.at));
    assert_eq!(
        page.events[2].data.as_ref().unwrap().as_str(),
        r#"{"role":"user","content":"one"}"#
    );
    assert!(reader.acknowledged().unwrap() >= Seq(4));
}

pub(super) fn ranges_go_forward_and_backward_in_pages(subject: &dyn Subject) {
    let store = subject.open();
    let (id, writer) = new_session(&*store);
    append(&*writer, (0..50).map(|n| message(&n.to_string())).collect());
    let reader = store.read(id).unwrap();
    for backward in [false, true] {
        let mut seen = Vec::new();
        let mut range = EventRange { first: Seq(5), last: Seq(40), ..EventRange::ALL }.limit(7);
        if backward {
            range = range.backward();
        }
        loop {
            let page = reader.page(range).unwrap();
            assert!(page.events.len() <= 7);
            seen.extend(page.events.iter().map(|event| event.seq.0));
            match page.next {
                Some(next) if backward => range.last = next,
                Some(next) => range.first = next,
                None => break,
            }
        }
        if backward {
            seen.reverse();
        }
        assert_eq!(seen, (5..=40).collect::<Vec<_>>());
    }
    let last = reader.page(EventRange::ALL.backward().limit(3)).unwrap();
    assert_eq!(last.events.iter().map(|event| event.seq.0).collect::<Vec<_>>(), [52, 51, 50]);
}

pub(super) fn one_writer_at_a_time(subject: &dyn Subject) {
    let store = subject.open();
    let (id, writer) = new_session(&*store);
    let other = subject.open();
    let refused = other.write(id, Duration::from_millis(20));
    match refused {
        Err(StoreError::Held { session, holder }) => {
            assert_eq!(session, id);
            assert!(!holder.program.is_empty());
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("two writers"),
    }
    append(&*writer, vec![message("still mine")]);
    drop(writer);
    assert!(other.write(id, NOW).is_ok());
}

pub(super) fn a_batch_is_taken_whole_or_not_at_all(subject: &dyn Subject) {
    let store = subject.open();
    let (id, writer) = new_session(&*store);
    let reserved = event(r#"{"kind":"writer.closed","data":{}}"#);
    let refused =
        writer.append(vec![message("one"), reserved], Durability::Synced, AnomalyPolicy::Keep);
    assert!(matches!(refused, Err(AppendError::Input { index: 1, .. })));
    let key = "x".repeat(1000);
    let refused =
        writer.append(vec![message("one").with_key(key)], Durability::Synced, AnomalyPolicy::Keep);
    assert!(matches!(refused, Err(AppendError::Input { index: 0, .. })));
    assert_eq!(kinds(&*store, id), ["session.created"]);
}

pub(super) fn odd_events_are_kept_or_refused(subject: &dyn Subject) {
    let store = subject.open();
    let (id, writer) = new_session(&*store);
    let result = || event(r#"{"kind":"tool.finished","data":{"call":"nobody"}}"#);
    let refused =
        writer.append(vec![message("one"), result()], Durability::Synced, AnomalyPolicy::Refuse);
    assert!(matches!(refused, Err(AppendError::Odd { index: 1, anomaly: Anomaly::UnknownCall })));
    assert_eq!(kinds(&*store, id), ["session.created"]);
    let kept = writer
        .append(vec![result()], Durability::Synced, AnomalyPolicy::Keep)
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(kept[0].anomaly, Some(Anomaly::UnknownCall));
    assert_eq!(append(&*writer, vec![message("two")]), [4]);
    assert_eq!(writer.state().unwrap().core.health.anomalies, 1);
}

pub(super) fn epochs_grow(subject: &dyn Subject) {
    let store = subject.open();
    let (id, writer) = new_session(&*store);
    append(&*writer, vec![message("one")]);
    let first = writer.epoch();
    drop(writer);
    let second = store.write(id, NOW).unwrap();
    assert!(second.epoch() > first);
    append(&*second, vec![message("two")]);
    drop(second);
    let opened =
        kinds(&*store, id).iter().filter(|kind| *kind == Kind::WRITER_OPENED.as_str()).count();
    assert_eq!(opened, 2);
    // Opening without writing leaves no trace.
    drop(store.write(id, NOW).unwrap());
    assert_eq!(kinds(&*store, id).last().map(String::as_str), Some("writer.closed"));
}

pub(super) fn payloads_are_verbatim(subject: &dyn Subject) {
    let store = subject.open();
    let (id, writer) = new_session(&*store);
    let large = "line \u{1f600} \\n\\u0041 ".repeat(20_000);
    let texts = [
        r#"{"n":123456789012345678901234567890.50,"n":1,"s":"\ud800"}"#.to_owned(),
        r#"{ "spaced" : [ 1 , 2 ] }"#.to_owned(),
        format!(r#"{{"large":"{large}","and":["{large}x"]}}"#),
        r#"{"sum":"a.b.c\"}","data":{"seq":1}}"#.to_owned(),
        // Many large strings behind a key that is larger still.
        format!(
            r#"{{"{}":[{}]}}"#,
            "k".repeat(1 << 20),
            vec![format!("\"{}\"", "v".repeat(70_000)); 80].join(",")
        ),
    ];
    let events =
        texts.iter().map(|text| event(&format!(r#"{{"kind":"x.y","data":{text}}}"#))).collect();
    append(&*writer, events);
    let reader = subject.open().read(id).unwrap();
    let page = reader.page(EventRange::from(Seq(3))).unwrap();
    let read: Vec<_> =
        page.events.iter().map(|event| event.data.as_ref().unwrap().as_str().to_owned()).collect();
    assert_eq!(read, texts);
}

pub(super) fn a_ticket_can_be_awaited(subject: &dyn Subject) {
    let store = subject.open();
    let (_, writer) = new_session(&*store);
    block_on(async {
        let one =
            writer.append(vec![message("one")], Durability::Synced, AnomalyPolicy::Keep).unwrap();
        let two =
            writer.append(vec![message("two")], Durability::Buffered, AnomalyPolicy::Keep).unwrap();
        assert_eq!(two.await.unwrap()[0].seq, Seq(4));
        assert_eq!(one.await.unwrap()[0].seq, Seq(3));
    });
}

pub(super) fn many_threads_append_at_once(subject: &dyn Subject) {
    let store = subject.open();
    let (id, writer) = new_session(&*store);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let writer = &writer;
            scope.spawn(move || {
                for n in 0..20 {
                    append(&**writer, vec![message(&format!("{thread}.{n}"))]);
                }
            });
        }
    });
    drop(writer);
    let reader = store.read(id).unwrap();
    let page = reader.page(EventRange::ALL).unwrap();
    let mut next = [0; 8];
    for event in page.events.iter().filter(|event| event.kind == Kind::MESSAGE_ADDED) {
        let text = event.data.as_ref().unwrap().as_str();
        let body = text.split("\"content\":\"").nth(1).unwrap().trim_end_matches("\"}");
        let (thread, n) = body.split_once('.').unwrap();
        let thread: usize = thread.parse().unwrap();
        assert_eq!(n.parse::<usize>().unwrap(), next[thread], "a thread's events keep their order");
        next[thread] += 1;
    }
    assert_eq!(next, [20; 8]);
}

pub(super) fn nothing_comes_between(subject: &dyn Subject) {
    let store = subject.open();
    let (id, writer) = new_session(&*store);
    let files = |last: Seq| {
        let json = format!(r#"{{"kind":"session.rewound","data":{{"to":{last},"files":true}}}}"#);
        NewEvent::parse(&json)
    };
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let writer = &writer;
            scope.spawn(move || {
                for n in 0..20 {
                    append(&**writer, vec![message(&format!("{thread} {n}"))]);
                }
            });
        }
        for _ in 0..10 {
            writer.append_behind(&files).unwrap().wait().unwrap();
        }
    });
    // An event that was refused leaves the writer as it was.
    let bad = |_: Seq| NewEvent::parse(r#"{"kind":"writer.opened","data":{}}"#);
    assert!(matches!(writer.append_behind(&bad), Err(AppendError::Input { index: 0, .. })));
    let kept = writer.core().unwrap().0;
    assert_eq!((kept.messages.total, kept.rewinds), (40, 10));
    writer.close().unwrap();
    drop(writer);
    let reader = store.read(id).unwrap();
    let page = reader.page(EventRange::ALL).unwrap();
    for event in page.events.iter().filter(|event| event.kind == Kind::SESSION_REWOUND) {
        let Ok(Fact::Rewind(rewind)) = event.fact() else { panic!("{event:?}") };
        assert_eq!(rewind.to.next(), event.seq);
    }
    assert_eq!(state(&*store, id).core.messages.total, 40, "none has left the lineage");
}
