#!/usr/bin/env bash
# What is on a cassette, and what went wrong: explain.sh FILE
set -euo pipefail
file=${1:?give a cassette: explain.sh FILE}
mcp-tape ls "$file"
echo
echo "Hangs, crashes, unanswered calls:"
mcp-tape why "$file" 2>&1 || true
echo
echo "Errors:"
mcp-tape show "$file" --filter status:error
echo
echo "Calls:"
mcp-tape stats "$file"
