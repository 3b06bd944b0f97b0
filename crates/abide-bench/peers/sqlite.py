"""Bare SQLite in WAL mode with synchronous=FULL, through Python's own module."""

import sqlite3

import work


class Sqlite(work.Peer):
    def version(self):
        return sqlite3.sqlite_version

    def open(self, directory):
        connection = sqlite3.connect(f"{directory}/messages.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        return connection

    def append(self, directory, texts):
        connection = self.open(directory)
        connection.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, role TEXT, content TEXT)")
        yield
        for text in texts:
            connection.execute(
                "INSERT INTO messages (role, content) VALUES (?, ?)", ("assistant", text)
            )
        yield
        connection.close()

    def load(self, directory, count):
        query = "SELECT role, content FROM messages ORDER BY id"
        return [content for _, content in self.open(directory).execute(query)]

    def last(self, directory, count, wanted):
        query = "SELECT role, content FROM messages ORDER BY id DESC LIMIT ?"
        rows = self.open(directory).execute(query, (wanted,)).fetchall()
        return [content for _, content in reversed(rows)]


work.run(Sqlite())
