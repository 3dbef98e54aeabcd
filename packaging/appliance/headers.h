/*
 * The headers that nearly all source files of the kernel include. They are compiled once, and the
 * compiler reads the result instead of parsing them a thousand times.
 */
#include <linux/kconfig.h>
#include <linux/compiler_types.h>
#include <linux/module.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/pagemap.h>
#include <linux/blkdev.h>
