-- A document is JSON, compressed; `sum` is its CRC-32, for SQLite has none of its own.
CREATE TABLE documents (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    body BLOB NOT NULL,
    sum INTEGER NOT NULL,
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;

CREATE TABLE journal (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    about TEXT NOT NULL,
    body BLOB NOT NULL,
    sum INTEGER NOT NULL
);
