'use strict'
// What comes from messages is only ever set as text, with control characters made visible.
const $ = (id) => document.getElementById(id)
const token = new URLSearchParams(location.hash.slice(1)).get('token')

async function call(method, path, body) {
  const headers = {}
  if (token) headers.authorization = `Bearer ${token}`
  if (body !== undefined) headers['content-type'] = 'application/json'
  const response = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) })
  const text = await response.text()
  const value = text ? JSON.parse(text) : null
  if (!response.ok) throw new Error((value && value.error) || response.statusText)
  return value
}
const ask = (path, query = {}) => {
  const set = Object.entries(query).filter(([, value]) => value !== '' && value !== undefined && value !== null)
  return call('GET', path + (set.length ? '?' + new URLSearchParams(set) : ''))
}
const visible = (text) =>
  String(text).replace(/[\u0000-\u0008\u000b-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(/[\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, '\ufffd')

function el(name, attributes = {}, ...children) {
  const element = document.createElement(name)
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value)
    else if (value === true) element.setAttribute(key, '')
    else if (value !== false && value !== undefined && value !== null) element.setAttribute(key, value)
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined) continue
    element.append(child instanceof Node ? child : visible(child))
  }
  return element
}
const time = (ms) => {
  if (ms === undefined || ms === null) return '-'
  const date = new Date(ms)
  return Number.isNaN(date.getTime()) ? String(ms) : date.toISOString().replace('T', ' ').replace('Z', '')
}
const number = (value) => Number(value).toLocaleString('en')
const empty = (text) => el('div', { class: 'empty' }, text)
const bytes = (body) => typeof body === 'string' ? new TextEncoder().encode(body)
  : Uint8Array.from(atob(body.base64), (c) => c.charCodeAt(0))
const preview = (body) => typeof body === 'string' ? body.slice(0, 200) : `${bytes(body).length} bytes, no text`

function table(columns, rows, open) {
  const head = el('tr', {}, columns.map((column) => el('th', { class: column.number && 'number' }, column.name)))
  const lines = rows.map((row) => {
    const line = el('tr', open ? { class: 'link', tabindex: 0, onclick: () => open(row) } : { tabindex: 0 },
      columns.map((column) => el('td', { class: column.number ? 'number' : column.kind }, column.of(row))))
    line.open = open && (() => open(row))
    return line
  })
  return el('table', {}, el('thead', {}, head), el('tbody', {}, lines))
}
const card = (title, ...content) => el('div', { class: 'card' }, title && el('h2', {}, title), content)

function notice(text, bad) {
  $('notice').textContent = visible(text)
  $('notice').className = bad ? 'bad' : ''
}
async function act(what, done) {
  try { await what(); notice(done); await draw() } catch (error) { notice(error.message, true) }
}

// ---- one message ---------------------------------------------------------------------------------------------------

function hex(data) {
  const lines = []
  for (let at = 0; at < data.length && at < 8192; at += 16) {
    const row = [...data.slice(at, at + 16)]
    const codes = row.map((byte) => byte.toString(16).padStart(2, '0')).join(' ').padEnd(47)
    const text = row.map((byte) => byte > 31 && byte < 127 ? String.fromCharCode(byte) : '.').join('')
    lines.push(`${at.toString(16).padStart(6, '0')}  ${codes}  ${text}`)
  }
  return lines.join('\n') || '(empty)'
}
function bodyAs(form, data) {
  if (form === 'hex') return hex(data)
  const text = new TextDecoder().decode(data)
  if (form === 'JSON') try { return JSON.stringify(JSON.parse(text), null, 2) } catch { return 'no JSON:\n' + text }
  return text || '(empty)'
}
function list(pairs) {
  return el('dl', {}, pairs.filter(([, value]) => value !== undefined && value !== null && value !== '')
    .flatMap(([name, value]) => [el('dt', {}, name), el('dd', {}, value)]))
}
function dialog(title, ...content) {
  const close = el('button', { onclick: () => $('detail').close(), 'aria-label': 'Close' }, 'Close')
  $('detail').replaceChildren(el('header', {}, el('h1', { class: 'title' }, title), close), el('section', {}, content))
  if (!$('detail').open) $('detail').showModal()
}
async function openMessage(message) {
  const data = bytes(message.body)
  const shown = el('pre', { id: 'body' }, bodyAs('text', data))
  const forms = ['text', 'JSON', 'hex'].map((form) =>
    el('button', { onclick: () => { shown.textContent = visible(bodyAs(form, data)) } }, form))
  const way = el('ol', { class: 'way', id: 'way' }, el('li', {}, 'looking'))
  dialog(`Message ${message.topic} ${message.queue}/${message.offset}`,
    list([['id', message.unique_id], ['broker id', message.message_id], ['tag', message.tag],
      ['keys', (message.keys || []).join(' ')], ['born', `${time(message.born_ms)} at ${message.born_host}`],
      ['stored', time(message.stored_ms)], ['due', message.due_ms && time(message.due_ms)],
      ['handed back', message.reconsume_times || '']]),
    el('h3', {}, `Body, ${number(data.length)} bytes `), el('div', { class: 'bar' }, forms), shown,
    el('h3', {}, 'Properties'), list(Object.entries(message.properties)),
    el('h3', {}, 'Its way'), way)
  try {
    const steps = await ask('/v1/messages/way', { topic: message.topic, id: message.unique_id || message.message_id })
    way.replaceChildren(...steps.map((step) => el('li', {}, el('b', {}, step.step.replace('_', ' ')), step.what + ' ',
      step.time_ms ? el('time', {}, time(step.time_ms)) : null)))
  } catch (error) { way.replaceChildren(el('li', {}, error.message)) }
}
const messageColumns = [
  { name: 'Stored', kind: 'mono', of: (m) => time(m.stored_ms) },
  { name: 'Queue', number: true, of: (m) => `${m.queue}/${m.offset}` },
  { name: 'Tag', of: (m) => m.tag || '' },
  { name: 'Keys', of: (m) => (m.keys || []).join(' ') },
  { name: 'Body', kind: 'body', of: (m) => preview(m.body) },
]

// ---- the views -----------------------------------------------------------------------------------------------------

const state = { topic: '', search: '', by: 'key', live: true, system: false, counts: new Map(), rates: new Map() }

function rates(topics) {
  const now = performance.now()
  for (const topic of topics) {
    const count = topic.queues.reduce((sum, queue) => sum + queue.max, 0)
    const before = state.counts.get(topic.topic)
    if (before && now - before.at > 500) {
      state.rates.set(topic.topic, Math.max(0, (count - before.count) * 1000 / (now - before.at)))
    }
    if (!before || now - before.at > 500) state.counts.set(topic.topic, { count, at: now })
  }
}

const views = {
  async Topics() {
    const topics = await ask('/v1/topics')
    rates(topics)
    const shown = topics.filter((topic) => state.system || !topic.is_system)
    const system = el('input', { type: 'checkbox', id: 'system', checked: state.system,
      onchange: (event) => { state.system = event.target.checked; draw() } })
    const open = (topic) => { state.topic = topic.topic; show('Messages') }
    return [el('div', { class: 'bar' }, el('span', { class: 'grow' }, `${shown.length} topics`),
      el('label', {}, system, ' those of the system too')),
    card('', shown.length ? table([
      { name: 'Topic', of: (t) => t.topic },
      { name: 'Messages', number: true, of: (t) => number(t.messages) },
      { name: 'Per second', number: true, of: (t) => (state.rates.get(t.topic) || 0).toFixed(1) },
      { name: 'Queues', number: true, of: (t) => t.write_queues },
      { name: 'Permission', of: (t) => `${t.perm & 4 ? 'read ' : ''}${t.perm & 2 ? 'write' : ''}` },
    ], shown, open) : empty('No topic yet. The first send to a name creates it.'))]
  },

  async Messages() {
    const topics = (await ask('/v1/topics')).filter((topic) => !topic.is_system || topic.topic === state.topic)
    if (!topics.some((topic) => topic.topic === state.topic)) {
      state.topic = (topics.find((topic) => topic.messages) || topics[0] || { topic: '' }).topic
    }
    const choice = el('select', { id: 'topic', 'aria-label': 'Topic', onchange: (e) => { state.topic = e.target.value; draw() } },
      topics.map((topic) => el('option', { value: topic.topic, selected: topic.topic === state.topic }, topic.topic)))
    const by = el('select', { 'aria-label': 'Search by', id: 'by', onchange: (e) => { state.by = e.target.value; draw() } },
      ['key', 'id', 'tag', 'text'].map((name) => el('option', { selected: name === state.by }, name)))
    const search = el('input', { id: 'search', type: 'search', class: 'grow', placeholder: 'search (press /)', value: state.search,
      onchange: (e) => { state.search = e.target.value.trim(); draw() } })
    const live = el('input', { type: 'checkbox', id: 'live', checked: state.live, onchange: (e) => { state.live = e.target.checked } })
    const bar = el('div', { class: 'bar' }, choice, by, search, el('label', {}, live, ' live'))
    if (!state.topic) return [bar, card('', empty('No messages yet.'))]
    const messages = await ask('/v1/messages', { topic: state.topic, limit: 100, [state.by]: state.search })
    return [bar, card('', messages.length ? table(messageColumns, messages, openMessage)
      : empty(state.search ? 'Nothing of the kind.' : 'No messages in this topic.')), putForm()]
  },

  async Groups() {
    // Groups that nobody has used yet, such as those of the tools, tell nothing.
    const groups = (await ask('/v1/groups')).filter((group) => group.members.length || group.queues.length)
    if (!groups.length) return card('', empty('No consumer group yet.'))
    return groups.map((group) => {
      const most = Math.max(1, ...group.queues.map((queue) => queue.max))
      return card([group.group, ' ', el('span', { class: `badge ${group.members.length ? 'good' : ''}` },
        `${group.members.length} online`), ' ', el('span', { class: 'badge' }, `lag ${number(group.lag)}`)],
      group.members.length ? table([
        { name: 'Member', kind: 'mono', of: (m) => m.client }, { name: 'Address', kind: 'mono', of: (m) => m.address },
        { name: 'Language', of: (m) => m.language }, { name: 'Version', number: true, of: (m) => m.version },
      ], group.members) : null,
      group.queues.length ? table([
        { name: 'Topic', of: (q) => q.topic }, { name: 'Queue', number: true, of: (q) => q.queue },
        { name: 'Committed', number: true, of: (q) => q.committed < 0 ? 'none' : number(q.committed) },
        { name: 'End', number: true, of: (q) => number(q.max) }, { name: 'Lag', number: true, of: (q) => number(q.lag) },
        { name: '', of: (q) => bar(q.lag / most) }, { name: 'Read by', kind: 'mono', of: (q) => q.owner || '' },
      ], group.queues) : empty('It has committed nothing yet.'))
    })
  },

  async Waiting() {
    const [delayed, half] = await Promise.all([ask('/v1/delayed', { limit: 500 }), ask('/v1/half')])
    const now = clock.message_ms
    const due = { name: 'Due', kind: 'mono', of: (m) => `${time(m.due_ms)} (in ${span(m.due_ms - now)})` }
    const topic = { name: 'For', of: (m) => m.topic }
    return [
      card(`Delayed messages: ${delayed.length}`, delayed.length
        ? table([due, topic, ...messageColumns.slice(2)], delayed, openMessage) : empty('Nothing waits for its time.')),
      card(`Half messages: ${half.length}`, half.length
        ? table([topic, ...messageColumns], half, openMessage) : empty('No transaction is open.')),
    ]
  },

  async 'Dead letters'() {
    const letters = await ask('/v1/dead_letters', { limit: 500 })
    const groups = [...new Set(letters.map((letter) => letter.topic))]
    if (!letters.length) return card('', empty('No dead letters. That is good.'))
    return groups.map((topic) => {
      const group = topic.replace(/^%DLQ%/, '')
      const replay = el('button', { class: 'main replay', onclick: () => act(
        () => call('POST', '/v1/dead_letters/replay', { group }), `sent again to ${group}`) }, 'Send all again')
      return [el('div', { class: 'bar' }, el('b', { class: 'grow' }, group), replay),
        card('', table(messageColumns, letters.filter((letter) => letter.topic === topic), openMessage))]
    })
  },

  async Journal() {
    const status = await ask('/v1/status')
    if (!status.journal) return card('', empty('The journal is switched off.'))
    const entries = (await ask('/v1/journal', { limit: 200, kind: 'request', request: state.request })).reverse()
    const filter = el('input', { id: 'request', class: 'grow', placeholder: 'send, pull, heartbeat, 310 ..', value: state.request || '',
      onchange: (e) => { state.request = e.target.value.trim(); draw() } })
    const clear = el('button', { onclick: () => act(() => call('DELETE', '/v1/journal'), 'journal cleared') }, 'Clear')
    const open = (entry) => dialog(`#${entry.sequence} ${entry.name}`,
      list([['time', time(entry.time_ms)], ['from', `${entry.client || ''} ${entry.peer}`], ['connection', entry.connection],
        ['language', `${entry.language} ${entry.version}`], ['answered', entry.response], ['fault', entry.fault]]),
      el('h3', {}, 'Fields'), list(Object.entries(entry.fields)),
      el('h3', {}, `Body, ${number(entry.body_length)} bytes`), el('pre', {}, bodyAs('text', bytes(entry.body))))
    return [el('div', { class: 'bar' }, filter, clear), card('', entries.length ? table([
      { name: '#', number: true, of: (e) => e.sequence }, { name: 'Time', kind: 'mono', of: (e) => time(e.time_ms) },
      { name: 'Request', of: (e) => e.name }, { name: 'Topic', of: (e) => e.topic || '' },
      { name: 'Group', of: (e) => (e.groups || []).join(' ') }, { name: 'From', kind: 'mono', of: (e) => e.client || e.peer },
      { name: 'Answer', of: (e) => e.response === undefined ? '' : el('span', { class: `badge ${e.response ? 'bad' : 'good'}` }, e.response) },
      { name: 'Fault', of: (e) => e.fault || '' },
    ], entries, open) : empty('Nobody has asked for anything.'))]
  },

  async Faults() {
    const faults = await ask('/v1/faults')
    const field = (name, label, attributes = {}) => el('label', {}, label, el('input', { name, ...attributes }))
    const kinds = ['answer', 'answer_after', 'delay', 'drop_request', 'drop_answer', 'close', 'reset', 'half_open', 'truncate',
      'corrupt', 'duplicate', 'drip', 'refuse', 'off', 'stale_routes', 'no_routes', 'disk_full', 'flush_timeout', 'slave_lag']
    const form = el('form', { class: 'pad', id: 'fault', onsubmit: (event) => { event.preventDefault(); putFault(form) } },
      el('div', { class: 'grid' }, el('label', {}, 'what happens', el('select', { name: 'kind' },
        kinds.map((kind) => el('option', {}, kind)))),
      field('value', 'value: code, ms or bytes', { placeholder: '2' }), field('request', 'request', { placeholder: 'send' }),
      field('topic', 'topic'), field('group', 'group'), field('client', 'client'),
      el('label', {}, 'port', el('select', { name: 'port' }, ['', 'broker', 'name_server'].map((port) => el('option', {}, port)))),
      field('times', 'how often', { type: 'number', min: 1 })),
      el('p', {}, el('button', { class: 'main' }, 'Put the fault')))
    return [card('Faults', faults.length ? table([
      { name: '#', number: true, of: (f) => f.id }, { name: 'What happens', kind: 'mono', of: (f) => JSON.stringify(f.fault.do) },
      { name: 'To', kind: 'mono', of: (f) => Object.entries(f.fault.on || {}).map((pair) => pair.join('=')).join(' ') || 'everything' },
      { name: 'Met', number: true, of: (f) => f.hits },
      { name: 'Left', number: true, of: (f) => f.left === undefined ? 'no end' : f.left },
      { name: '', of: (f) => el('button', { onclick: () => act(() => call('DELETE', `/v1/faults/${f.id}`), `fault ${f.id} removed`) }, 'Remove') },
    ], faults) : empty('Everything works. Put a fault to change that.')), card('New fault', form)]
  },

  async Clock() {
    const turn = (ms) => act(() => call('POST', '/v1/clock/advance', { ms }), `time turned by ${span(ms)}`)
    const custom = el('input', { id: 'minutes', type: 'number', min: 1, value: 10, 'aria-label': 'minutes' })
    return card('Message time', el('div', { class: 'pad' }, el('div', { class: 'big' }, time(clock.message_ms)),
      el('div', { class: 'bar' }, [['+ 1 s', 1e3], ['+ 1 min', 6e4], ['+ 1 h', 36e5], ['+ 2 h', 72e5], ['+ 1 day', 864e5]]
        .map(([label, ms]) => el('button', { onclick: () => turn(ms) }, label)), custom,
      el('button', { class: 'main', onclick: () => turn(custom.value * 6e4) }, 'minutes forward')),
      el('div', { class: 'bar' },
        el('button', { onclick: () => act(() => call('POST', '/v1/clock/freeze', { frozen: !clock.manual }), 'done') },
          clock.manual ? 'Let it go on' : 'Let it stand still'),
        el('button', { onclick: () => act(() => call('POST', '/v1/clock/skip', { skip: !clock.skipping }), 'done') },
          clock.skipping ? 'Stop skipping' : 'Skip to what is due'),
        el('button', { onclick: () => act(() => call('POST', '/v1/clock/advance_sessions', { ms: 130000 }), 'silent clients dropped') },
          'Drop silent clients')),
      el('p', {}, clock.next_due_ms ? `Next: ${time(clock.next_due_ms)}, in ${span(clock.next_due_ms - clock.message_ms)}`
        : 'Nothing is due.')))
  },
}

const bar = (share) => el('div', { class: 'lag' }, (() => {
  const fill = el('i'); fill.style.width = `${Math.min(100, share * 100)}%`; return fill
})())
function span(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000))
  const parts = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']]
  let left = seconds
  const text = parts.map(([size, unit]) => { const n = Math.floor(left / size); left %= size; return n ? `${n} ${unit}` : '' })
  return text.filter(Boolean).slice(0, 2).join(' ') || '0 s'
}
function putForm() {
  const input = (name, label) => el('label', {}, label, el('input', { name }))
  const form = el('form', { class: 'pad', id: 'put', onsubmit: (event) => {
    event.preventDefault()
    const data = Object.fromEntries(new FormData(form))
    const message = { topic: state.topic, body: data.body }
    if (data.tag) message.tag = data.tag
    if (data.keys) message.keys = data.keys.split(/\s+/).filter(Boolean)
    if (data.level) message.delay_level = Number(data.level)
    act(() => call('POST', '/v1/messages', message), 'stored')
  } }, el('div', { class: 'grid' }, input('body', 'body'), input('tag', 'tag'), input('keys', 'keys'), input('level', 'delay level')),
  el('p', {}, el('button', { class: 'main' }, 'Put a message')))
  return card('Put a message', form)
}
function putFault(form) {
  const data = Object.fromEntries(new FormData(form))
  const value = data.value === '' ? undefined : Number(data.value)
  const action = {
    answer: { answer: { code: value ?? 2, remark: 'by the console' } },
    answer_after: { answer_after: { code: value ?? 2, remark: 'by the console' } },
    delay: { delay: { ms: value ?? 1000 } }, reset: { reset: value === undefined ? {} : { after_bytes: value } },
    truncate: { truncate: { bytes: value ?? 0 } }, corrupt: { corrupt: { at: value ?? 8 } },
    drip: { drip: { bytes: value ?? 1, every_ms: 10 } },
  }[data.kind] || data.kind
  const on = {}
  for (const name of ['request', 'topic', 'group', 'client', 'port']) if (data[name]) on[name] = data[name]
  const fault = { on, do: action }
  if (data.times) fault.times = Number(data.times)
  act(() => call('POST', '/v1/faults', fault), 'fault put')
}

// ---- drawing -------------------------------------------------------------------------------------------------------

let current = 'Topics'
let clock = { message_ms: 0 }
let drawing = false

function show(name) {
  current = name
  for (const tab of $('tabs').children) {
    if (tab.textContent === name) tab.setAttribute('aria-current', 'page')
    else tab.removeAttribute('aria-current')
  }
  return draw()
}
// What somebody types or chooses stays while the view is drawn again.
const isBusy = () => $('view').contains(document.activeElement) &&
  /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName) && document.activeElement.type !== 'checkbox'
async function draw(byItself = false) {
  const name = current
  try {
    const status = await ask('/v1/status')
    clock = status.clock
    $('identity').textContent = visible(`${status.broker_name} at ${status.broker}, name server ${status.name_server}, like ` +
      `${status.compatibility}, ${status.connections} connections` + (status.faults ? `, ${status.faults} faults` : ''))
    $('time').textContent = time(clock.message_ms)
    $('clock-state').textContent = clock.manual ? 'stands still' : clock.skipping ? 'skipping' : ''
    const content = await views[name]()
    // Meanwhile somebody may have gone elsewhere, or begun to type.
    if (name !== current || (byItself && (isBusy() || $('detail').open))) return
    const row = [...$('view').querySelectorAll('tbody tr')].indexOf(document.activeElement)
    $('view').replaceChildren(...[content].flat(Infinity).filter(Boolean))
    document.body.dataset.drawn = name
    if (row >= 0) { const rows = $('view').querySelectorAll('tbody tr'); if (rows.length) rows[Math.min(row, rows.length - 1)].focus() }
    if ($('notice').className) notice('')
  } catch (error) { notice(error.message, true) }
}
function theme(dark) {
  document.documentElement.classList.toggle('dark', dark)
}
theme(matchMedia('(prefers-color-scheme: dark)').matches)
$('theme').addEventListener('click', () => theme(!document.documentElement.classList.contains('dark')))
for (const name of Object.keys(views)) $('tabs').append(el('button', { onclick: () => show(name) }, name))

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) { if (event.key === 'Escape') event.target.blur(); return }
  const names = Object.keys(views)
  const rows = [...$('view').querySelectorAll('tbody tr')]
  const at = rows.indexOf(document.activeElement)
  if (event.key >= '1' && event.key <= String(names.length)) show(names[event.key - 1])
  else if (event.key === '/') { event.preventDefault(); const go = () => $('search') && $('search').focus(); $('search') ? go() : show('Messages').then(go) }
  else if (event.key === 't') $('theme').click()
  else if (event.key === 'j' && rows.length) rows[Math.min(at + 1, rows.length - 1)].focus()
  else if (event.key === 'k' && rows.length) rows[Math.max(at - 1, 0)].focus()
  else if (event.key === 'Enter' && at >= 0 && event.target === rows[at] && rows[at].open) {
    // Else the same key would press the button that has the focus then.
    event.preventDefault()
    rows[at].open()
  }
})
setInterval(async () => {
  if (document.hidden || drawing || isBusy() || $('detail').open || (current === 'Messages' && !state.live)) return
  drawing = true
  await draw(true)
  drawing = false
}, 1000)
show('Topics')
