"""A broker whose streams are files in a folder, and an engine that runs functions in threads."""
