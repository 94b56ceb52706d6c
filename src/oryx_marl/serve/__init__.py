"""A trained policy over HTTP and JSON.

protocol -> app -> handlers -> batching -> engine
                   sessions, tokens: where the recurrent state is between two requests
"""
