
# Completes the words that diskfs itself knows: paths in images, volumes, snapshots, steps.
_diskfs_asked() {
    local -a found
    found=("${(@f)$(${words[1]} complete zsh -- "$LBUFFER" 2>/dev/null)}")
    if [[ -n "$found" ]]; then
        compadd -S '' -- $found
    else
        _diskfs "$@"
    fi
}
compdef _diskfs_asked diskfs
