"""Files of other projects, unchanged; README.md says where each comes from."""
