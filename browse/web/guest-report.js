// The report on a guest as sections with tables; sections without contents are left out.

import { el, raw } from './dom.js';
import { microseconds, size, time } from './format.js';
import { facts, grid } from './table.js';

const yes = (value) => (value === null || value === undefined ? null : value ? 'yes' : 'no');
const columns = (...pairs) => pairs.map(([title, field]) => [title, typeof field === 'function' ? field : (row) => row[field]]);

function overview(system) {
  return facts([
    ['Product', system.product], ['Type', system.type], ['Distribution', system.distribution], ['Like', system.like],
    ['Version', system.version], ['Code name', system.code_name], ['Variant', system.variant], ['Architecture', system.architecture],
    ['Host name', system.hostname], ['Machine ID', system.machine_id], ['Time zone', system.timezone], ['Locale', system.locale],
    ['Root volume', system.volume], ['Last boot', time(system.activity.last_boot)], ['Last log', time(system.activity.last_log)],
    ['Packages', [system.packages.format, system.packages.manager].filter(Boolean).join(', ')],
    ['SELinux', system.selinux ? [system.selinux.mode, system.selinux.policy].filter(Boolean).join(', ') : null],
    ['QEMU guest agent', system.guest_agent ? `${system.guest_agent.path} ${system.guest_agent.version ?? ''}` : null],
  ]);
}

function boot({ boot: { default: entry, firmware, loaders } }) {
  if (!entry && !firmware.length && !loaders.length) return null;
  return facts([['Firmware', firmware], ['Boot loaders', loaders], ['Default entry', entry?.title], ['Kernel', entry?.kernel],
    ['Initramfs', entry?.initramfs], ['Command line', entry?.command_line]]);
}

function ssh({ ssh: settings }) {
  return facts([['Root login', settings.permit_root_login], ['Password authentication', settings.password_authentication]]);
}

function cloudInit({ cloud_init: cloud }) {
  if (!cloud) return null;
  return facts([['Version', cloud.version], ['Datasource', cloud.datasource], ['Datasources', cloud.datasources], ['Instance', cloud.instance],
    ['Disabled', yes(cloud.is_disabled)], ['Errors', cloud.errors]]);
}

function windows({ windows: facts_ }) {
  if (!facts_) return null;
  return facts([['Edition', facts_.edition], ['Service pack', facts_.service_pack], ['System directory', facts_.system_root],
    ['Fast startup', yes(facts_.fast_startup)], ['Hibernation', facts_.hibernation], ['Last shutdown', time(facts_.last_shutdown)],
    ['Drives', facts_.drives.map(({ letter }) => letter)], ['Virtio drivers', facts_.virtio_drivers.map(({ name }) => name)],
    ['Programs', facts_.programs.map(({ name, version }) => `${name} ${version ?? ''}`)]]);
}

const LISTS = [
  ['Users', (system) => system.users, columns(['Name', 'name'], ['UID', 'uid'], ['GID', 'gid'], ['Comment', 'comment'], ['Home', 'home'], ['Shell', 'shell'], ['Password', 'password'])],
  ['Groups', (system) => system.groups, columns(['Name', 'name'], ['GID', 'gid'], ['Members', 'members'])],
  ['Network interfaces', (system) => system.network.interfaces, columns(['Name', 'name'], ['Kind', 'kind'], ['MAC', 'mac'], ['DHCPv4', (row) => yes(row.dhcp4)],
    ['DHCPv6', (row) => yes(row.dhcp6)], ['Addresses', 'addresses'], ['Gateways', 'gateways'], ['DNS', 'dns'], ['Configured by', 'configured_by'], ['File', 'file'])],
  ['Services', (system) => system.services, columns(['Name', 'name'], ['State', 'state'], ['Init', 'init'], ['File', 'file'])],
  ['Mounts', (system) => system.mounts, columns(['Path', 'path'], ['Device', 'device'], ['Filesystem', 'filesystem'], ['Options', 'options'])],
  ['Filesystems', (system) => system.filesystems, columns(['Path', 'path'], ['Volume', 'volume'], ['Filesystem', 'filesystem'], ['Label', 'label'],
    ['Size', (row) => size(row.size_bytes)], ['Used', (row) => size(row.used_bytes)], ['Problem', 'problem'])],
  ['Kernels', (system) => system.kernels, columns(['Version', 'version'], ['Path', 'path'], ['Initramfs', 'initramfs'], ['Modules', 'modules'],
    ['Drivers', (row) => Object.entries(row.drivers).map(([name, place]) => `${name}: ${place}`)])],
  ['SSH host keys', (system) => system.ssh.host_keys, columns(['Algorithm', 'algorithm'], ['Bits', 'bits'], ['Fingerprint', 'fingerprint'], ['Comment', 'comment'])],
  ['SSH authorized keys', (system) => system.ssh.authorized_keys, columns(['User', 'user'], ['Algorithm', 'algorithm'], ['Fingerprint', 'fingerprint'], ['Comment', 'comment'],
    ['Options', 'options'], ['File', (row) => `${row.file}:${row.line}`])],
  ['Sudo rules', (system) => system.sudoers, columns(['Who', 'who'], ['May', 'may'], ['Without password', (row) => yes(row.without_password)], ['File', (row) => `${row.file}:${row.line}`])],
  ['Scheduled jobs', (system) => system.cron, columns(['Schedule', 'schedule'], ['User', 'user'], ['Command', 'command'], ['File', 'file'])],
  ['Problems', (system) => system.problems, columns(['File', 'file'], ['Reason', 'reason'])],
];

function nameServers({ network }) {
  return network.dns.length || network.search.length ? facts([['Name servers', network.dns], ['Search domains', network.search]]) : null;
}

function section(title, content) {
  return el('section', { class: 'report-section' }, el('h3', {}, title), content);
}

/** The section with the boots of the journal; null without any. */
export function bootSection(boots) {
  if (!boots.length) return null;
  return section('Boots', grid(boots, [['Number', (boot) => boot.index], ['First record', (boot) => microseconds(boot.first_entry).slice(0, 19)],
    ['Last record', (boot) => microseconds(boot.last_entry).slice(0, 19)], ['ID', (boot) => boot.boot_id]], 'Boots'));
}

/** The sections of the report on one system. */
export function report(system) {
  const fixed = [['System', overview(system)], ['Boot', boot(system)], ['SSH server', ssh(system)], ['Name resolution', nameServers(system)],
    ['cloud-init', cloudInit(system)], ['Windows', windows(system)]].filter(([, content]) => content?.rows?.length);
  const lists = LISTS.map(([title, rows, shape]) => [title, rows(system), shape]).filter(([, rows]) => rows?.length)
    .map(([title, rows, shape]) => [title, grid(rows, shape, title)]);
  const title = el('p', { class: 'guest-title' }, raw(system.product ?? system.distribution ?? 'unknown system'));
  return [title, el('div', { class: 'report' }, [...fixed, ...lists].map(([name, content]) => section(name, content)))];
}
