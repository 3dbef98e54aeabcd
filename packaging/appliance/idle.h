/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A fix for device interrupts that are missed before sleeping, for User Mode Linux.
 *
 * Before it sleeps with interrupts disabled, User Mode Linux checks for an expired timer, but not for a
 * signal of a device (SIGIO): that is marked as pending, and handled at the next timer, up to a second
 * later. With this fix, devices are treated like timers: their signal is blocked during the check, any
 * pending signal prevents sleeping, and a later one interrupts it.
 *
 * This file is included at the beginning of arch/um/os-Linux/time.c and signal.c. They stay unchanged:
 * the macros replace functions that they call.
 */
#ifdef __UM_HOST__ /* Only the host side: other files have the same names. */

#include <signal.h>

#ifdef DISKFS_TIME
static inline int add_device_signal_too(sigset_t *set, int signal)
{
	if (signal == SIGALRM)
		sigaddset(set, SIGIO);
	return sigaddset(set, signal);
}
#define sigaddset add_device_signal_too
#endif

#ifdef DISKFS_SIGNAL
/* Signals that arrived while interrupts were disabled; the file itself declares it again. */
static DISKFS_SIGNAL unsigned int signals_pending;

extern int timer_alarm_pending(void);
int timer_alarm_pending(void)
{
	return signals_pending != 0;
}
#define timer_alarm_pending timer_alarm_alone_pending
#endif

#endif
