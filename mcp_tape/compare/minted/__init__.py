"""Minted values: ids, cursors and times that a server makes up anew each time, and that are therefore not a change.

Theory of operation. Another run of the same server gives other ids and other times, and nothing lists these values.
There are two kinds of evidence. Looks: a time has one of a few forms; an id is random, which shows in how often letters
and digits alternate. Use: a value in a request that was in an earlier answer, and that the client had not sent before,
came from the server. This also finds ids that look like plain numbers. In doubt a value is data: a false report does
less harm than a hidden change.

A minted value is not just ignored but bound. An id corresponds to the same other id everywhere, both ways; one that
suddenly belongs to another thing is a change. A time that stays the same in one pair of answers is data in all of them.

Knows messages, not cassettes: works for two recordings as well as for a recording and a live server.

    patterns  made-up parts of a text: times and ids
    binding   pairs of corresponding values of the two sides
    spots     the place of a value in a message, and the value at that place in another message
    uses      values in requests that came from earlier answers, and their live counterparts
"""
