"""Calls as OpenTelemetry spans: in a document, sent to a collector, or sent live during a recording.

Knows the conventions for MCP and the protocol of collectors. Must not know commands.

    spans       the spans of a session, in OTLP's JSON
    collector   sends spans to a collector, as Protocol Buffers
    live_spans  sends spans during a recording
"""
