/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * No interrupt of a device is slept through, for User Mode Linux.
 *
 * Before it sleeps with interrupts switched off, Linux there looks whether a timer has rung meanwhile, but not
 * whether a device has reported (SIGIO): that is noted, and heard of when the next timer rings, up to a second
 * later. With this, devices are looked after as timers are: their signal is blocked while Linux looks, whatever is
 * noted keeps it awake, and what comes then wakes it.
 *
 * arch/um/os-Linux/time.c and signal.c begin with this file. They stay as they are: what they call is exchanged.
 */
#ifdef __UM_HOST__ /* Other files of these names have nothing to do with it. */

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
/* What was noted while interrupts were off; the file itself declares it once more. */
static DISKFS_SIGNAL unsigned int signals_pending;

extern int timer_alarm_pending(void);
int timer_alarm_pending(void)
{
	return signals_pending != 0;
}
#define timer_alarm_pending timer_alarm_alone_pending
#endif

#endif
