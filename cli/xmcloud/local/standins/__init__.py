"""Servers that speak as cloud services do, and run what they are given on this machine."""
