"""Diagnosis: why a refined mask is blank, unchanged or wrong, as a list of findings with cures."""

from densefield.diagnose.explain import explain as explain
from densefield.diagnose.result import Finding as Finding
