"""The long proofs: each resumable, each leaving one file in docs/proofs."""
