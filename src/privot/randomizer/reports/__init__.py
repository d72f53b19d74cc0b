"""Reports as arrays: tables of reports, joint, split and candidates reports, and their validation."""
