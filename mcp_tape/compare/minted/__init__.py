"""Minted values: ids, cursors and times that a server makes up anew each time, and that are therefore no change.

Theory of operation. Another run of the same server gives other ids and other times, and no list says which values those
are. There are two sources of evidence. Looks: a time has one of a few forms, and an id is random, which shows in how
often letters and digits alternate. Use: what a request holds, an earlier answer held, and the client had not said
before, came from the server; that finds also ids that look like plain numbers. What stays in doubt is data: a change
reported in vain does less harm than one that is hidden.

A minted value is not just ignored but bound. An id stands for the same other id everywhere, both ways; one that is
suddenly another thing's is a change. A time that stays the same in one pair of answers is data in all of them.

Knows messages, not cassettes: serves two recordings as well as a recording and a live server.

    patterns   what looks made up in a text: times and ids
    binding    the values of one side that stand for those of the other
    spots      where a value stands in a message, and what stands there in another message
    uses       values in requests that came from earlier answers, and their live counterparts
"""
