// Shows the locks. What comes from outside becomes text, never markup.
'use strict';

const byId = (id) => document.getElementById(id);
const MOST_ROWS = 500;
const WHY_EVERY = 5000;
const WHY_SOON = 2000;  // The server does not ask more often.

let state = null;       // The last event "state".
let look = null;        // The last event "look".
let heard = 0;          // When the last event came, by this clock.
let cut = 0;            // Since when there is no connection.
let skew = 0;           // What the server's clock is ahead.
let sort = { by: 'name', down: false };
let version = null;

// -- Words ----------------------------------------------------------------------------------------

// As `span` of the command.
function span(ms) {
  const s = Math.max(0, ms) / 1000, two = (a, u, b, v) => (b ? `${a} ${u} ${b} ${v}` : `${a} ${u}`);
  const at = Math.floor(s);
  if (s < 10) return `${s.toFixed(1)} s`;
  if (at < 60) return `${at} s`;
  if (at < 3600) return two(Math.floor(at / 60), 'min', at % 60, 's');
  if (at < 86400) return two(Math.floor(at / 3600), 'h', Math.floor(at / 60) % 60, 'min');
  const days = Math.floor(at / 86400);
  return two(days, days === 1 ? 'day' : 'days', Math.floor(at / 3600) % 24, 'h');
}

const now = () => Date.now() + skew;
const since = (moment) => now() - Date.parse(moment);
const clock = (moment) => new Date(moment).toLocaleTimeString([], { hour12: false });

function who(one) {
  const process = one.process === null ? '' : ` (process ${one.process})`;
  const place = one.application ? `${one.application} on ${one.host}${process}` : `${one.host}${process}`;
  return one.label ? `${place} for “${one.label}”` : place;
}

function inShort(one) {
  const words = [one.application ?? one.host, one.process, one.label && `“${one.label}”`];
  return words.filter((word) => word !== null && word !== '').join(' ');
}

// -- Elements -------------------------------------------------------------------------------------

// An element with text and children: never with markup.
function make(tag, { text, ...rest } = {}, ...children) {
  const made = document.createElement(tag);
  Object.assign(made, rest);
  if (text !== undefined) made.textContent = text;
  made.append(...children);
  return made;
}

function draw(tag, attributes, text) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// Keeps what is selected and focused where nothing changes.
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function replace(element, key, children) {
  if (element.dataset.key === key) return;
  element.dataset.key = key;
  element.replaceChildren(...children());
}

// -- The list -------------------------------------------------------------------------------------

const rows = new Map();

function rowOf(lock) {
  let row = rows.get(lock.name);
  if (row) return row;
  const link = make('a', { text: lock.name, href: `#lock=${encodeURIComponent(lock.name)}` });
  const marks = make('div', { className: 'mark' });
  const cells = ['', 'small', 'small', '', 'number', 'number', 'number small'].map((name) => make('td', { className: name }));
  cells[0].append(link, marks);
  const line = make('tr', {}, ...cells);
  line.addEventListener('click', (event) => {
    if (event.target !== link && !getSelection().toString()) location.hash = link.hash;
  });
  row = { line, marks, cells };
  rows.set(lock.name, row);
  return row;
}

// A holder that does not tell since when it holds the lock may have waited before.
const atMost = (is) => (is ? 'at most ' : '');

const heldBy = (lock) => {
  if (lock.free_since) return 'free';
  if (!lock.holders.length) return 'nobody';
  const first = who(lock.holders[0]);
  return lock.holders.length > 1 ? `${first}, and ${lock.holders.length - 1} more` : first;
};

const ORDER = {
  name: (lock) => lock.name,
  held: (lock) => (lock.held_since ? since(lock.held_since) : -1),
  waiting: (lock) => lock.waiting,
  waited: (lock) => (lock.waits_since ? since(lock.waits_since) : -1),
};

function showList() {
  const wanted = byId('filter').value.trim().toLowerCase();
  const matches = (lock) => !wanted || lock.name.toLowerCase().includes(wanted) || lock.holders.some((one) => who(one).toLowerCase().includes(wanted));
  const only = byId('only').checked;
  const found = state.locks.filter((lock) => matches(lock) && (!only || lock.warnings.length));
  const of = ORDER[sort.by], turn = sort.down ? -1 : 1;
  found.sort((a, b) => {
    const [x, y] = [of(a), of(b)];
    return (x < y ? -turn : x > y ? turn : 0) || (a.name < b.name ? -1 : 1);
  });
  const shown = found.slice(0, MOST_ROWS);
  const lines = shown.map((lock) => {
    const { line, marks, cells } = rowOf(lock);
    line.className = lock.free_since ? 'free' : '';
    say(marks, lock.warnings.map((warning) => `⚠ ${warning}`).join('; '));
    say(cells[1], lock.kind);
    say(cells[2], lock.layout);
    say(cells[3], heldBy(lock));
    say(cells[4], lock.free_since ? `free for ${span(since(lock.free_since))}` : lock.held_since ? atMost(lock.held_at_most) + span(since(lock.held_since)) : '–');
    say(cells[5], String(lock.waiting));
    say(cells[6], lock.waits_since ? span(since(lock.waits_since)) : '–');
    return line;
  });
  const body = byId('rows');
  if (body.children.length !== lines.length || lines.some((line, at) => body.children[at] !== line)) body.replaceChildren(...lines);
  const known = new Set(state.locks.map((lock) => lock.name));
  for (const name of rows.keys()) if (!known.has(name)) rows.delete(name);
  for (const button of document.querySelectorAll('[data-sort]')) {
    const head = button.closest('th');
    if (button.dataset.sort === sort.by) head.setAttribute('aria-sort', sort.down ? 'descending' : 'ascending');
    else head.removeAttribute('aria-sort');
  }
  const empty = byId('empty');
  const more = found.length - shown.length;
  empty.hidden = shown.length > 0 && !more;
  say(empty, more > 0 ? `and ${more} more; a filter shows them`
    : state.locks.length ? 'no lock is like this' : 'no lock is in use');
  const left = leftOut();
  byId('left-out').hidden = !left;
  say(byId('left-out'), left);
}

// Why there may be more locks than are listed.
function leftOut() {
  const of = (all, one, many) => (all ? `Left out: ${all.length === 1 ? one : many} (${all.slice(0, 3).join(', ')}${all.length > 3 ? ', …' : ''}). ` : '');
  return of(state.unread, 'a directory that may not be read', `${state.unread?.length} directories that may not be read`)
    + of(state.elsewhere, 'the locks of another root', 'the locks of other roots')
    + of(state.unnamed, 'a lock whose path is no name', `${state.unnamed?.length} locks whose paths are no names`);
}

// -- One lock -------------------------------------------------------------------------------------

const chosen = () => {
  const [, name] = location.hash.match(/^#lock=(.*)$/) || [];
  try { return name === undefined ? null : decodeURIComponent(name); } catch { return null; }
};

let known = { name: null, why: null, error: null, spans: null, since: null, asked: 0, old: false };

// What `zklock why` knows of a contender.
const knownOf = (one) => {
  const all = known.why ? [...known.why.holders, ...known.why.waiters] : [];
  return all.find((other) => other.node === one.node && other.czxid === one.czxid);
};

// Of a queue that is too long for it, it knows the head.
const unknown = () => known.why?.queues.some((queue) => queue.unread) ? 'not read in time' : '…';

const sessionOf = (one) => {
  const session = knownOf(one)?.session;
  if (!session) return unknown();
  if (session.state === 'none') return 'none: no session removes its node';
  if (session.state === 'alone') return `${session.id}, without a connection to any server`;
  if (session.state === 'unknown') return `${session.id}; when it was last heard is not known: ${session.why}`;
  return `${session.id}, from ${session.from} to ${session.server}, timeout ${span(session.timeout_ms)}`;
};

// What is usual for a hold. One that `zklock why` does not count as a hold has nothing to compare.
const usualOf = (one) => {
  const it = knownOf(one);
  return it ? it.usual?.says.join('\n') ?? '–' : unknown();
};

function facts(pairs) {
  const list = make('dl');
  for (const [name, value] of pairs) if (value) list.append(make('dt', { text: name }), make('dd', {}, value));
  return list;
}

function breaker(lock, one) {
  if (!state.breaks) return '';
  const button = make('button', { className: 'plain', type: 'button', text: 'Break …' });
  button.addEventListener('click', () => askToBreak(lock, one));
  return button;
}

function ticking(moment) {
  const text = make('span', { className: 'since', text: span(since(moment)) });
  text.dataset.since = moment;
  return text;
}

function holderCard(lock, one) {
  const isAtMost = !one.granted && (lock.holders.length > 1 || lock.held_at_most);
  const from = one.granted || (lock.holders.length === 1 && lock.held_since) || one.created;
  // Filled in below, so that nothing is drawn anew where only its figures change.
  const [usual, session] = ['usual', 'session'].map((className) => make('span', { className, text: '…' }));
  for (const part of [usual, session]) Object.assign(part.dataset, { node: one.node, czxid: one.czxid });
  return make('div', { className: 'card' },
    make('div', { className: 'head' }, make('span', { text: who(one) }), breaker(lock, one)),
    facts([
      ['holds', make('span', {}, `${one.mode}, for ${atMost(isAtMost)}`, ticking(from), `, since ${clock(from)}${isAtMost ? ' at the earliest' : ''}`)],
      ['usually', usual],
      ['label', one.label],
      ['asked', one.asked_to_release ? 'to release it' : null],
      ['session', session],
      ['node', make('span', { className: 'code', text: `${one.node}, czxid ${one.czxid}` })],
    ]));
}

function queueTable(lock) {
  if (!lock.waiters.length) return make('p', { className: 'quiet', text: 'nobody waits' });
  const lines = lock.waiters.map((one, at) => make('tr', {},
    make('td', { className: 'number', text: String(at + 1) }),
    make('td', { text: who(one) + (one.why ? ` — ${one.why}` : '') }),
    make('td', { text: one.mode }),
    make('td', { className: 'number' }, ticking(one.created)),
    make('td', { className: 'code', text: `${one.node}, czxid ${one.czxid}` }),
    make('td', {}, breaker(lock, one))));
  const head = ['', 'Who', 'Mode', 'Waits for', 'Node', ''].map((text) => make('th', { text }));
  return make('table', {}, make('thead', {}, make('tr', {}, ...head)), make('tbody', {}, ...lines));
}

// Whether the servers do not tell if a holder lives. As the command says it.
const isUntold = () => Boolean(known.why?.holders.some((one) => one.session.state === 'unknown'));

function whyParts() {
  if (known.error) return [make('p', { className: 'quiet', text: known.error })];
  if (!known.why) return [make('p', { className: 'quiet', text: 'asking the servers …' })];
  const parts = known.why.problems.map((problem) => make('div', { className: problem.normal ? 'problem normal' : 'problem' },
    make('p', { text: problem.says }),
    ...problem.helps.map((help) => make('pre', { text: help }))));
  if (known.why.unavailable_for_ms) parts.push(make('p', { text: `Nobody gets it for ${span(known.why.unavailable_for_ms)}.` }));
  const asFar = isUntold() ? ', as far as it is known: whether the holder lives is not told' : '';
  return parts.length ? parts : [make('p', { className: 'quiet', text: `Nothing is wrong${asFar}.` })];
}

function showDetail(name) {
  const lock = state.locks.find((one) => one.name === name);
  say(byId('name'), name);
  document.title = `${name} · zklock`;
  say(byId('about'), lock ? `${lock.kind}, layout ${lock.layout}, ${lock.path}` : 'not in use since this server looks');
  replace(byId('warnings'), JSON.stringify(lock?.warnings), () =>
    (lock?.warnings ?? []).map((warning) => make('li', { text: `⚠ ${warning}` })));
  const key = JSON.stringify([lock, state.breaks]);
  replace(byId('holders'), key, () => lock?.holders.length
    ? lock.holders.map((one) => holderCard(lock, one))
    : [make('p', { className: 'quiet', text: 'nobody holds it' })]);
  replace(byId('queue'), key, () => [lock ? queueTable(lock) : make('p', { className: 'quiet', text: 'nobody waits' })]);
  byId('why').classList.toggle('stale', known.old);
  replace(byId('why'), JSON.stringify([known.why?.problems, known.why?.unavailable_for_ms, isUntold(), known.error]), whyParts);
  for (const one of document.querySelectorAll('.since')) say(one, span(since(one.dataset.since)));
  for (const one of document.querySelectorAll('.usual')) say(one, usualOf(one.dataset));
  for (const one of document.querySelectorAll('.session')) say(one, sessionOf(one.dataset));
  showTimeline();
}

async function fetched(path, options) {
  const answer = await fetch(path, options);
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.error);
  return value;
}

async function askTimeline() {
  const name = chosen();
  if (name === null) return;
  try {
    const { spans, since } = await fetched(`/api/timeline?name=${encodeURIComponent(name)}`);
    if (chosen() === name) Object.assign(known, { spans, since });
  } catch { /* Not seen yet. */ }
  show();
}

async function askWhy() {
  const name = chosen();
  if (name === null || look?.trouble || cut) return;
  Object.assign(known, { asked: Date.now(), old: false });
  try {
    const why = await fetched(`/api/why?name=${encodeURIComponent(name)}`);
    if (chosen() === name) Object.assign(known, { why, error: null });
  } catch (error) {
    if (chosen() === name) Object.assign(known, { why: null, error: error.message });
  }
  show();
}

function choose() {
  const name = chosen();
  if (known.name !== name) known = { name, why: null, error: null, spans: null, since: null, asked: 0, old: false };
  show();
  askTimeline();
  askWhy();
}

// -- The timeline ---------------------------------------------------------------------------------

const WINDOWS = [30, 60, 120, 300, 600, 1800, 3600, 10800, 43200, 86400].map((s) => s * 1000);
const ROW = 24, LEFT = 250, TOP = 26, MOST_LINES = 40;

function showTimeline() {
  const box = byId('timeline');
  const spans = known.spans ?? [];
  say(byId('since'), known.since ? `Seen since ${clock(known.since)}, once in ${span(look?.interval_ms ?? 1000)}; what is shorter may be missing.` : '');
  if (!spans.length) {
    replace(box, 'none', () => []);
    return;
  }
  const end = state && (look?.trouble || cut) && look?.seen ? Date.parse(look.seen) : now();
  const begin = Math.max(Math.min(...spans.map((one) => Date.parse(one.from))), end - 600000);
  const length = WINDOWS.find((one) => one >= end - begin) ?? end - begin;
  const width = Math.max(640, box.clientWidth || 900), right = width - 16;
  const x = (moment) => Math.max(LEFT, Math.min(right, right - (end - moment) / length * (right - LEFT)));
  // One line for each node; the last ones.
  const lines = new Map();
  for (const one of spans) {
    const id = one.contender.czxid + one.contender.node;
    if (!lines.has(id)) lines.set(id, []);
    lines.get(id).push(one);
  }
  const shown = [...lines.values()].filter((line) => !line.at(-1).to || Date.parse(line.at(-1).to) > end - length).slice(-MOST_LINES);
  const height = TOP + shown.length * ROW + 8;
  const svg = draw('svg', { width, height, role: 'img', 'aria-label': 'Timeline' });
  for (let at = 0; at <= 4; at += 1) {
    const left = LEFT + (right - LEFT) * at / 4;
    svg.append(draw('line', { class: 'grid', x1: left, x2: left, y1: TOP - 6, y2: height }));
    const text = at === 4 ? 'now' : `−${span(length * (4 - at) / 4).replace('.0', '')}`;
    svg.append(draw('text', { x: left, y: 15, 'text-anchor': at === 4 ? 'end' : 'middle' }, text));
  }
  shown.forEach((line, at) => {
    const top = TOP + at * ROW;
    const name = inShort(line.at(-1).contender);
    const text = draw('text', { class: 'who', x: 12, y: top + 15 }, name.length > 34 ? `${name.slice(0, 33)}…` : name);
    text.append(draw('title', {}, line.at(-1).who));
    svg.append(text);
    for (const one of line) {
      const from = x(Date.parse(one.from)), to = x(one.to ? Date.parse(one.to) : end);
      const holds = one.contender.holds;
      const bar = draw('rect', { class: holds ? 'held' : 'waiting', x: from, y: top + (holds ? 4 : 7), width: Math.max(2, to - from), height: holds ? 14 : 8, rx: 2 });
      const long = span((one.to ? Date.parse(one.to) : end) - Date.parse(one.from));
      bar.append(draw('title', {}, `${one.who} ${holds ? 'held' : 'waited'} for ${long}${one.end ? `: ${one.end}` : ''}`));
      svg.append(bar);
      if (one.end === 'gone' || one.end === 'broken') svg.append(draw('rect', { class: 'end', x: to - 2, y: top + 2, width: 4, height: 18 }));
      if (one.to && (holds || one.end !== 'granted') && to < right - 70) svg.append(draw('text', { x: to + 6, y: top + 15 }, one.end));
    }
  });
  delete box.dataset.key;
  box.replaceChildren(svg);
}

// -- Breaking -------------------------------------------------------------------------------------

let target = null;

// A word as a shell reads it.
const quoted = (word) => (/^[\w./:,=@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

function askToBreak(lock, one) {
  target = { name: lock.name, node: one.node, czxid: one.czxid, holds: one.holds };
  say(byId('break-who'), who(one));
  say(byId('break-holds'), one.holds ? 'holds the lock' : 'waits for the lock');
  say(byId('break-what'), `zklock break ${quoted(lock.name)} --node ${quoted(one.node)} --czxid ${one.czxid}`);
  byId('break-error').hidden = true;
  byId('break').showModal();
  byId('token').focus();
}

async function breakIt(event) {
  event.preventDefault();
  const error = byId('break-error'), yes = byId('break-yes');
  yes.disabled = true;
  try {
    const { deleted } = await fetched('/api/break', {
      method: 'POST',
      headers: { Authorization: `Bearer ${byId('token').value}`, 'Content-Type': 'application/json' },
      body: JSON.stringify(target),
    });
    if (!deleted) throw new Error('The node was gone already.');
    byId('break').close();
    // That it was broken may be known only after it was seen to be gone.
    askTimeline();
  } catch (caught) {
    error.hidden = false;
    say(error, caught.message);
  }
  yes.disabled = false;
}

// -- What is live ---------------------------------------------------------------------------------

function show() {
  const bad = cut ? `No connection to zklock serve since ${clock(cut)}`
    : look?.trouble ? `${look.trouble}${look.seen ? `, since ${clock(look.seen)}` : ''}` : null;
  const status = byId('status');
  status.className = bad ? 'bad' : look ? 'live' : '';
  say(status, bad ? 'old' : look ? 'live' : 'connecting …');
  byId('trouble').hidden = !bad;
  if (bad) say(byId('trouble'), `${bad}. ${state ? 'What is shown is what was seen last.' : ''} It goes on by itself.`);
  document.body.classList.toggle('old', Boolean(bad));
  const name = chosen();
  byId('list').hidden = name !== null;
  byId('detail').hidden = name === null;
  if (!state) return;
  const used = state.locks.filter((lock) => !lock.free_since);
  const suspect = used.filter((lock) => lock.warnings.length).length;
  const waiting = used.reduce((sum, lock) => sum + lock.waiting, 0);
  say(byId('totals'), `${used.length} in use, ${waiting} waiting, ${suspect} suspect`);
  say(byId('scope'), state.prefix === null ? '' : `${state.prefix} and below`);
  if (name === null) {
    document.title = `${suspect ? `(${suspect}) ` : ''}zklock`;
    showList();
  } else {
    showDetail(name);
  }
}

let source = null;

function open() {
  source?.close();
  source = new EventSource('/api/events');
  source.addEventListener('state', (event) => {
    const of = (all) => JSON.stringify(all?.locks.find((lock) => lock.name === chosen()));
    const before = of(state);
    state = JSON.parse(event.data);
    // It is about others than those who are shown.
    if (of(state) !== before) known.old = true;
    if (version !== null && version !== state.version) location.reload();
    version = state.version;
    show();
    askTimeline();
  });
  source.addEventListener('look', (event) => {
    const before = look;
    look = JSON.parse(event.data);
    skew = Date.parse(look.at) - Date.now();
    heard = Date.now();
    cut = 0;
    if (before?.trouble && !look.trouble) askWhy();
    show();
  });
  source.onerror = () => {
    cut = cut || Date.now();
    show();
    // The browser tries again by itself, except after an answer that is no stream.
    if (source.readyState === EventSource.CLOSED) setTimeout(() => document.hidden || open(), 2000);
  };
}

function tick() {
  if (document.hidden) return;
  // A connection that was cut without a word: the server says something every four seconds.
  const silent = Math.max(10000, 5 * (look?.interval_ms ?? 0));
  if (heard && Date.now() - heard > silent && !cut) {
    cut = heard;
    heard = Date.now();
    open();
  }
  if (chosen() !== null && Date.now() - known.asked > (known.old ? WHY_SOON : WHY_EVERY)) askWhy();
  show();
}

// A page that nobody sees needs no connection, of which a browser has few for one server.
document.addEventListener('visibilitychange', () => {
  if (document.hidden) source?.close();
  else open();
});
addEventListener('hashchange', choose);
byId('filter').addEventListener('input', show);
byId('only').addEventListener('change', show);
for (const button of document.querySelectorAll('[data-sort]')) {
  button.addEventListener('click', () => {
    const by = button.dataset.sort;
    sort = { by, down: sort.by === by ? !sort.down : by !== 'name' };
    show();
  });
}
addEventListener('keydown', (event) => {
  if (event.key !== '/' || event.target instanceof HTMLInputElement) return;
  event.preventDefault();
  byId('filter').focus();
});
byId('break-form').addEventListener('submit', breakIt);
byId('break-no').addEventListener('click', () => byId('break').close());
byId('break').addEventListener('close', () => { byId('token').value = ''; target = null; });
setInterval(tick, 1000);
open();
choose();
