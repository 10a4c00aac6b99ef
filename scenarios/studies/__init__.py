"""Kinds of study: learning, links, audits, reference checks."""
