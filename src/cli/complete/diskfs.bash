
# Completes the words that diskfs itself knows: paths in images, volumes, snapshots, steps.
_diskfs_asked() {
    local IFS=$'\n'
    COMPREPLY=($("${COMP_WORDS[0]}" complete bash -- "${COMP_LINE:0:COMP_POINT}" 2>/dev/null))
    if ((${#COMPREPLY[@]})); then
        compopt -o nospace 2>/dev/null
        return
    fi
    IFS=$' \t\n'
    _diskfs "$@"
}
complete -o bashdefault -o default -F _diskfs_asked diskfs
