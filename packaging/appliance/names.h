/*
 * The macros that differ between source files, under other names on the command line: the compiler
 * does not read precompiled headers if a macro in them was defined before.
 */
#define KBUILD_BASENAME DISKFS_BASENAME
#define KBUILD_MODNAME DISKFS_MODNAME
#define __KBUILD_MODNAME DISKFS_MODULE
#define KBUILD_MODFILE DISKFS_MODFILE
