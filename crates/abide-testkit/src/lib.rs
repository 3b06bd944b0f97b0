//! What tries to break abide: a simulated disk, an oracle, the store contract and an in-memory
//! store to run it on.
