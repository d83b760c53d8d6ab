"""The training loop and the parts it needs. Nothing in this package prints, or writes files except
`stored_programs`.
"""
