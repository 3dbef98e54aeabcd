
# Completes the words that diskfs itself knows: paths in images, volumes, snapshots, steps.
complete -c diskfs -a '(diskfs complete fish -- (commandline -cp) 2>/dev/null)'
