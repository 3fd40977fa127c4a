"""A release as pictures to look at; reads the released folder only."""
