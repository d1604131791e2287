"""Rehearsals of the course: on a device that is not the CPU, and at other seeds."""
