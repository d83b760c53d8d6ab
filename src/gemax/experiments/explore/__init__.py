"""`gemax bench explore`: sparse-reward tasks that every method is compared on, and the environments made for it.

The modules of the environments import Gymnasium, NumPy and nothing of gemax, so that they also serve as examples of
custom environments.
"""
