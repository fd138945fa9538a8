-- A sum is of all the row has, no longer of its document alone: `row_sum` is Millrace's own.
UPDATE documents SET sum = row_sum(kind, name, body);

UPDATE journal SET sum = row_sum(number, at, kind, about, body);
