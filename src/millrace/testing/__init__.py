"""For users and for ourselves: feed records to a job, fakes at our own ports, conformance."""
