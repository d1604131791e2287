"""Mutation testing: do the asserts of a lecture notice when the code that they prove is broken?"""
