/*
 * libdiskfs: opens disk images of virtual machines in this process, without root and without a
 * mount.
 *
 * Errors: a function that can fail has a last parameter `error`. It may be NULL. Otherwise the
 * function stores NULL there on success, and on failure an error that diskfs_error_free() frees.
 * Failure is `false` or NULL. errno is never used, and no function ends the program.
 *
 * Strings: paths of the host and of the guest are bytes that end with NUL, as for open(2). Names of
 * volumes, formats and snapshots, and plans, must be valid UTF-8. A NULL for a string that is
 * required is an error of the kind DISKFS_ERROR_KIND_INVALID. A volume may be NULL: then the path is
 * in the tree of the operating system, else in the only filesystem. Strings that functions return
 * are freed with diskfs_string_free().
 *
 * Threads: any number of threads may use one diskfs_disk and one diskfs_file at the same time. A
 * diskfs_options, diskfs_dir, diskfs_volumes and diskfs_error must not be used by two threads at
 * once. No other thread may use an object while it is freed or closed. A callback is called on the
 * thread that called the function. It must not use longjmp or throw an exception, and functions that
 * it calls with the same disk fail.
 *
 * fork: after fork(2), the child must not use any object of the parent.
 *
 * Lifetime: a disk may be closed before its files, directories and volumes are. They must still be
 * freed. Files then fail with DISKFS_ERROR_KIND_INVALID, the others return what was read before.
 */

#ifndef DISKFS_H
#define DISKFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * The kind of an error: a small and stable set, for programs to branch on.
 */
typedef enum {
    /**
     * Any other failure.
     */
    DISKFS_ERROR_KIND_OTHER = 0,
    /**
     * The host failed to read or write; a retry may help.
     */
    DISKFS_ERROR_KIND_IO = 1,
    /**
     * The data violates the specification of its format.
     */
    DISKFS_ERROR_KIND_CORRUPT = 2,
    /**
     * The data needs a feature that diskfs does not support.
     */
    DISKFS_ERROR_KIND_UNSUPPORTED = 3,
    /**
     * No such image, volume, snapshot or file.
     */
    DISKFS_ERROR_KIND_NOT_FOUND = 4,
    /**
     * A file, image or volume with that name exists already.
     */
    DISKFS_ERROR_KIND_EXISTS = 5,
    /**
     * A component of a path is not a directory.
     */
    DISKFS_ERROR_KIND_NOT_A_DIRECTORY = 6,
    /**
     * A directory where a regular file is required.
     */
    DISKFS_ERROR_KIND_IS_A_DIRECTORY = 7,
    /**
     * A write to something that is open read-only.
     */
    DISKFS_ERROR_KIND_READ_ONLY = 8,
    /**
     * No space left.
     */
    DISKFS_ERROR_KIND_NO_SPACE = 9,
    /**
     * The image is in use by another process.
     */
    DISKFS_ERROR_KIND_LOCKED = 10,
    /**
     * The host's permissions or a policy deny the access, or the key of an encrypted volume is
     * missing or wrong.
     */
    DISKFS_ERROR_KIND_DENIED = 11,
    /**
     * Several volumes or operating systems qualify; the message lists them.
     */
    DISKFS_ERROR_KIND_AMBIGUOUS = 12,
    /**
     * An invalid argument or request.
     */
    DISKFS_ERROR_KIND_INVALID = 13,
    /**
     * The callback has cancelled the work.
     */
    DISKFS_ERROR_KIND_CANCELLED = 14,
    /**
     * A defect of diskfs, which is worth a report. The disk must be closed.
     */
    DISKFS_ERROR_KIND_INTERNAL = 15,
} diskfs_error_kind;

/**
 * The type of a file.
 */
typedef enum {
    /**
     * A regular file.
     */
    DISKFS_FILE_TYPE_REGULAR = 0,
    /**
     * A directory.
     */
    DISKFS_FILE_TYPE_DIRECTORY = 1,
    /**
     * A symbolic link.
     */
    DISKFS_FILE_TYPE_SYMLINK = 2,
    /**
     * A character device.
     */
    DISKFS_FILE_TYPE_CHARACTER_DEVICE = 3,
    /**
     * A block device.
     */
    DISKFS_FILE_TYPE_BLOCK_DEVICE = 4,
    /**
     * A FIFO (named pipe).
     */
    DISKFS_FILE_TYPE_FIFO = 5,
    /**
     * A Unix socket.
     */
    DISKFS_FILE_TYPE_SOCKET = 6,
} diskfs_file_type;

/**
 * The kind of access to a disk.
 */
typedef enum {
    /**
     * Reading only, which is the default. Nothing is written to the image.
     */
    DISKFS_ACCESS_READ_ONLY = 0,
    /**
     * Reading and writing. The image is locked against all other processes.
     */
    DISKFS_ACCESS_WRITE = 1,
    /**
     * Writing into memory: the changes are discarded when the disk is closed.
     */
    DISKFS_ACCESS_DRY_RUN = 2,
} diskfs_access;

/**
 * The way in which a file is opened.
 */
typedef enum {
    /**
     * An existing file for reading.
     */
    DISKFS_FILE_MODE_READ = 0,
    /**
     * An existing file for reading and writing.
     */
    DISKFS_FILE_MODE_WRITE = 1,
    /**
     * An existing or a new file for reading and writing.
     */
    DISKFS_FILE_MODE_WRITE_OR_CREATE = 2,
    /**
     * An empty file for reading and writing: an existing one is truncated.
     */
    DISKFS_FILE_MODE_TRUNCATE = 3,
    /**
     * A new file for reading and writing, which must not exist.
     */
    DISKFS_FILE_MODE_CREATE_NEW = 4,
} diskfs_file_mode;

/**
 * The entries of a directory that was read.
 */
typedef struct diskfs_dir diskfs_dir;

/**
 * An open disk, which any number of threads can use.
 */
typedef struct diskfs_disk diskfs_disk;

/**
 * An error: its kind, its errno(3) and its message.
 */
typedef struct diskfs_error diskfs_error;

/**
 * An open regular file, which any number of threads can use.
 */
typedef struct diskfs_file diskfs_file;

/**
 * The options for opening a disk.
 */
typedef struct diskfs_options diskfs_options;

/**
 * The list of the volumes of a disk.
 */
typedef struct diskfs_volumes diskfs_volumes;

/**
 * A volume. Its strings are valid until the list is freed.
 */
typedef struct {
    /**
     * The name, such as `p1` or `vg0/root`, which other functions take.
     */
    const char *name;
    /**
     * The kind of the content as blkid(8) names it, such as `ext4`; NULL if it is unknown.
     */
    const char *kind;
    /**
     * The label of the content; empty without one.
     */
    const char *label;
    /**
     * The UUID of the content; NULL without one.
     */
    const char *uuid;
    /**
     * The size in bytes.
     */
    uint64_t size_bytes;
    /**
     * True if diskfs can open the content as a filesystem.
     */
    bool is_readable;
} diskfs_volume;

/**
 * A function that is called during long work with the number of bytes that are done, the total
 * number, and the caller's own pointer. It returns false to cancel the work.
 */
typedef bool (*diskfs_progress)(uint64_t done_bytes, uint64_t total_bytes, void *data);

/**
 * A point in time.
 */
typedef struct {
    /**
     * Whole seconds since 1970, which can be negative.
     */
    int64_t seconds;
    /**
     * Nanoseconds after that second.
     */
    uint32_t nanoseconds;
} diskfs_time;

/**
 * The metadata of a file, as stat(2) returns it.
 */
typedef struct {
    /**
     * The inode number.
     */
    uint64_t inode;
    /**
     * The size in bytes; for a symlink the length of its target.
     */
    uint64_t size_bytes;
    /**
     * The number of allocated bytes.
     */
    uint64_t allocated_bytes;
    /**
     * The type of the file.
     */
    diskfs_file_type file_type;
    /**
     * The type and the permissions, as `st_mode`.
     */
    uint32_t mode;
    /**
     * The number of hard links.
     */
    uint32_t links;
    /**
     * The user ID of the owner.
     */
    uint32_t uid;
    /**
     * The group ID.
     */
    uint32_t gid;
    /**
     * The major number of a device node, else 0.
     */
    uint32_t device_major;
    /**
     * The minor number of a device node, else 0.
     */
    uint32_t device_minor;
    /**
     * The time of the last access.
     */
    diskfs_time accessed;
    /**
     * The time of the last change of the contents.
     */
    diskfs_time modified;
    /**
     * The time of the last change of the inode.
     */
    diskfs_time changed;
} diskfs_metadata;

/**
 * An entry of a directory.
 */
typedef struct {
    /**
     * The name, which is valid until the directory is freed.
     */
    const char *name;
    /**
     * The inode number.
     */
    uint64_t inode;
    /**
     * The type of the file; of a symlink itself.
     */
    diskfs_file_type file_type;
} diskfs_entry;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Returns the kind of an error; `DISKFS_ERROR_KIND_OTHER` for NULL.
 */
diskfs_error_kind diskfs_error_get_kind(const diskfs_error *error);

/**
 * Returns the name of the kind as in JSON, such as `not_found`. It is valid until the error is
 * freed.
 */
const char *diskfs_error_get_kind_name(const diskfs_error *error);

/**
 * Returns the errno(3) that describes the error best, such as ENOTEMPTY, for programs that know no
 * other errors; 0 for NULL.
 */
int diskfs_error_get_errno(const diskfs_error *error);

/**
 * Returns the message: what failed, where, and what to do next, in one line of UTF-8. It is valid
 * until the error is freed.
 */
const char *diskfs_error_get_message(const diskfs_error *error);

/**
 * Frees an error. NULL is ignored.
 */
void diskfs_error_free(diskfs_error *error);

/**
 * Frees a string that a function of this library has returned. NULL is ignored.
 */
void diskfs_string_free(char *text);

/**
 * Returns new options: reading, the format of the image is probed, and the image may refer to files
 * in its own directory that have the same owner. They are freed with `diskfs_options_free()`.
 */
diskfs_options *diskfs_options_new(void);

/**
 * Frees options. NULL is ignored.
 */
void diskfs_options_free(diskfs_options *options);

/**
 * Sets the kind of access, a value of `diskfs_access`.
 */
bool diskfs_options_set_access(diskfs_options *options, uint32_t access, diskfs_error **error);

/**
 * Writes all changes into a qcow2 overlay at `path`, which is created if it is missing. The image
 * itself stays unchanged.
 */
bool diskfs_options_set_overlay(diskfs_options *options,
                                const char *path,
                                diskfs_error **error);

/**
 * Sets the format of the image, `raw`, `qcow2`, `vhdx` and others, instead of probing it.
 */
bool diskfs_options_set_format(diskfs_options *options,
                               const char *format,
                               diskfs_error **error);

/**
 * Reads an internal snapshot of the image, by name or ID.
 */
bool diskfs_options_set_snapshot(diskfs_options *options,
                                 const char *snapshot,
                                 diskfs_error **error);

/**
 * Adds a passphrase of `len` bytes for one encrypted volume or image, or for all (NULL).
 */
bool diskfs_options_add_passphrase(diskfs_options *options,
                                   const char *volume,
                                   const uint8_t *passphrase,
                                   size_t len,
                                   diskfs_error **error);

/**
 * Lets the image refer to files below a directory: a backing file or a data file.
 */
bool diskfs_options_allow_backing(diskfs_options *options,
                                  const char *directory,
                                  diskfs_error **error);

/**
 * Refuses all files that the image refers to.
 */
bool diskfs_options_refuse_backing(diskfs_options *options, diskfs_error **error);

/**
 * Opens the image even if a running machine uses it. The data may be inconsistent.
 */
bool diskfs_options_force_share(diskfs_options *options, diskfs_error **error);

/**
 * Adds another disk of the same machine, whose volumes are named `disk2/p1` and so on.
 */
bool diskfs_options_add_disk(diskfs_options *options, const char *path, diskfs_error **error);

/**
 * Returns the version of the library, such as `0.1.0`. It is valid forever.
 */
const char *diskfs_version(void);

/**
 * Opens the image at `path`. The options may be NULL, and may be freed afterwards. The disk is
 * closed with `diskfs_close()`.
 */
diskfs_disk *diskfs_open(const char *path, const diskfs_options *options, diskfs_error **error);

/**
 * Makes all changes so far durable.
 */
bool diskfs_sync(const diskfs_disk *disk, diskfs_error **error);

/**
 * Closes a disk and frees it, also after an error. When it returns true, all changes are durable.
 * NULL is ignored.
 */
bool diskfs_close(diskfs_disk *disk,
                  diskfs_error **error);

/**
 * Lists the volumes of a disk: partitions, logical volumes, arrays, and the decrypted insides of
 * encrypted volumes. The list is freed with `diskfs_volumes_free()`.
 */
diskfs_volumes *diskfs_list_volumes(const diskfs_disk *disk,
                                    diskfs_error **error);

/**
 * Returns the number of volumes; 0 for NULL.
 */
size_t diskfs_volumes_count(const diskfs_volumes *volumes);

/**
 * Stores the volume with this index, from 0. Returns false past the last one.
 */
bool diskfs_volumes_get(const diskfs_volumes *volumes, size_t index, diskfs_volume *volume);

/**
 * Frees a list of volumes. NULL is ignored.
 */
void diskfs_volumes_free(diskfs_volumes *volumes);

/**
 * Describes the image, its volumes and filesystems, as `diskfs info --json` does. What can't be
 * read is a warning in the document. Free it with `diskfs_string_free()`.
 */
char *diskfs_info_json(const diskfs_disk *disk, diskfs_error **error);

/**
 * Describes the operating systems, as `diskfs inspect --json` does: packages, users, network,
 * services. With `with_sources`, it names the file and line of each fact. Free it with
 * `diskfs_string_free()`.
 */
char *diskfs_inspect_json(const diskfs_disk *disk, bool with_sources, diskfs_error **error);

/**
 * Applies a plan, in YAML or JSON, to the only operating system of a disk that is open for
 * writing, and returns the document of `diskfs deploy --json`. Changes so far become durable first.
 * All changes of the plan are durable afterwards, or after an error none, unless the message says
 * otherwise. Files of the disk are closed first. `progress` may be NULL. Free the document with `diskfs_string_free()`.
 */
char *diskfs_deploy(const diskfs_disk *disk,
                    const char *plan,
                    diskfs_progress progress,
                    void *data,
                    diskfs_error **error);

/**
 * Works out what a plan would change, without writing it, and returns the document of `diskfs
 * deploy --dry-run --json` with a diff. Free it with `diskfs_string_free()`.
 */
char *diskfs_deploy_dry_run(const diskfs_disk *disk, const char *plan, diskfs_error **error);

/**
 * Stores the metadata of a file, following symlinks.
 */
bool diskfs_stat(const diskfs_disk *disk,
                 const char *volume,
                 const char *path,
                 diskfs_metadata *metadata,
                 diskfs_error **error);

/**
 * Stores the metadata of a file; of a symlink itself, not of its target.
 */
bool diskfs_lstat(const diskfs_disk *disk,
                  const char *volume,
                  const char *path,
                  diskfs_metadata *metadata,
                  diskfs_error **error);

/**
 * Returns the target of a symlink. Free it with `diskfs_string_free()`.
 */
char *diskfs_read_link(const diskfs_disk *disk,
                       const char *volume,
                       const char *path,
                       diskfs_error **error);

/**
 * Reads a directory, sorted by name, without `.` and `..`. It is freed with `diskfs_dir_free()`.
 */
diskfs_dir *diskfs_read_dir(const diskfs_disk *disk,
                            const char *volume,
                            const char *path,
                            diskfs_error **error);

/**
 * Stores the next entry. Returns false after the last one.
 */
bool diskfs_dir_next(diskfs_dir *dir, diskfs_entry *entry);

/**
 * Frees a directory. NULL is ignored.
 */
void diskfs_dir_free(diskfs_dir *dir);

/**
 * Opens a regular file. `mode` is a value of `diskfs_file_mode`. The file is closed with
 * `diskfs_file_close()`.
 */
diskfs_file *diskfs_open_file(const diskfs_disk *disk,
                              const char *volume,
                              const char *path,
                              uint32_t mode,
                              diskfs_error **error);

/**
 * Stores the size of a file in bytes.
 */
bool diskfs_file_size(const diskfs_file *file, uint64_t *size_bytes, diskfs_error **error);

/**
 * Reads up to `len` bytes from byte `offset` on. Stores the number of bytes read, which is less
 * than `len` only at the end of the file. The rest of the buffer is then filled with zeros.
 */
bool diskfs_read_at(const diskfs_file *file,
                    uint64_t offset,
                    uint8_t *buffer,
                    size_t len,
                    size_t *read,
                    diskfs_error **error);

/**
 * Writes all `len` bytes at byte `offset`. After an error a part may be written.
 */
bool diskfs_write_at(const diskfs_file *file,
                     uint64_t offset,
                     const uint8_t *data,
                     size_t len,
                     diskfs_error **error);

/**
 * Truncates a file, or extends it with a hole.
 */
bool diskfs_set_len(const diskfs_file *file, uint64_t size_bytes, diskfs_error **error);

/**
 * Makes the contents and the name of a file durable.
 */
bool diskfs_file_sync(const diskfs_file *file, diskfs_error **error);

/**
 * Closes a file and frees it. It makes nothing durable: `diskfs_file_sync()`, `diskfs_sync()` and
 * `diskfs_close()` do. NULL is ignored.
 */
void diskfs_file_close(diskfs_file *file);

/**
 * Replaces the contents of a file. A missing file is created with mode 0644; owner, mode and
 * attributes of an existing one are kept.
 */
bool diskfs_write_file(const diskfs_disk *disk,
                       const char *volume,
                       const char *path,
                       const uint8_t *data,
                       size_t len,
                       diskfs_error **error);

/**
 * Creates a directory with mode 0755.
 */
bool diskfs_mkdir(const diskfs_disk *disk,
                  const char *volume,
                  const char *path,
                  diskfs_error **error);

/**
 * Creates a directory and its missing parents with mode 0755.
 */
bool diskfs_mkdir_all(const diskfs_disk *disk,
                      const char *volume,
                      const char *path,
                      diskfs_error **error);

/**
 * Removes a file, a symlink (not its target) or an empty directory.
 */
bool diskfs_remove(const diskfs_disk *disk,
                   const char *volume,
                   const char *path,
                   diskfs_error **error);

/**
 * Removes a file, or a directory with everything below it. Symlinks are not followed.
 */
bool diskfs_remove_all(const diskfs_disk *disk,
                       const char *volume,
                       const char *path,
                       diskfs_error **error);

/**
 * Renames a file or a directory within one filesystem. An existing file at `to` is replaced.
 */
bool diskfs_rename(const diskfs_disk *disk,
                   const char *volume,
                   const char *from,
                   const char *to,
                   diskfs_error **error);

/**
 * Creates a symlink at `path` to `target`, which need not exist.
 */
bool diskfs_symlink(const diskfs_disk *disk,
                    const char *volume,
                    const char *target,
                    const char *path,
                    diskfs_error **error);

/**
 * Sets the permissions of a file, the low 12 bits of its mode. A symlink is followed.
 */
bool diskfs_chmod(const diskfs_disk *disk,
                  const char *volume,
                  const char *path,
                  uint16_t permissions,
                  diskfs_error **error);

/**
 * Sets the owner and the group of a file; `UINT32_MAX` keeps the present one. Symlinks are not
 * followed.
 */
bool diskfs_chown(const diskfs_disk *disk,
                  const char *volume,
                  const char *path,
                  uint32_t uid,
                  uint32_t gid,
                  diskfs_error **error);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* DISKFS_H */
