#!/bin/sh
# Writes what goes below /usr/share: manual pages and completion scripts, as a couchrelay for this machine prints them.
# The same couchrelay and SOURCE_DATE_EPOCH give the same bytes.
#
#   packaging/share.sh COUCHRELAY DIRECTORY
set -eu
mkdir -p "$2/bash-completion/completions" "$2/zsh/vendor-completions" "$2/fish/vendor_completions.d"
"$1" completion bash >"$2/bash-completion/completions/couchrelay"
"$1" completion zsh >"$2/zsh/vendor-completions/_couchrelay"
"$1" completion fish >"$2/fish/vendor_completions.d/couchrelay.fish"
"$1" man --directory "$2/man"
gzip -9n "$2"/man/man?/*
