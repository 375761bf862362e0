// Clicks through the console's page in headless Chromium, by the WebDriver protocol, and keeps a picture of each view.
// usage: node click.mjs BROKER_COMMAND PICTURES
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { createInterface } from 'node:readline'

const [command, pictures] = process.argv.slice(2)
mkdirSync(pictures, { recursive: true })
const children = []
const limit = Number(process.env.PAGE_LIMIT_MS || 150_000)
let lookAtFailure = async () => {}
let endSession = async () => {}

function start(program, argumentsOfIt, isReady) {
  const child = spawn(program, argumentsOfIt, { stdio: ['ignore', 'pipe', 'inherit'] })
  children.push(child)
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('exit', (code) => reject(new Error(`${program} ended with ${code}`)))
    createInterface({ input: child.stdout }).on('line', (line) => { const ready = isReady(line); if (ready) resolve(ready) })
  })
}
async function until(what, look) {
  const end = Date.now() + limit
  for (;;) {
    const seen = await look()
    if (seen) return seen
    if (Date.now() > end) {
      await lookAtFailure()
      throw new Error(`waited in vain for ${what}`)
    }
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

// A frame of the remoting protocol, answered by the broker.
function request(address, code, fields, body = '') {
  const header = Buffer.from(JSON.stringify({ code, language: 'OTHER', version: 479, opaque: 1, flag: 0, extFields: fields }))
  const frame = Buffer.alloc(8)
  frame.writeUInt32BE(4 + header.length + Buffer.byteLength(body), 0)
  frame.writeUInt32BE(header.length, 4)
  const [host, port] = address.split(':')
  const socket = connect(Number(port), host)
  socket.write(Buffer.concat([frame, header, Buffer.from(body)]))
  return new Promise((resolve, reject) => { socket.once('data', () => resolve(socket)); socket.once('error', reject) })
}

async function main() {
  const ready = await start(command, ['--listen', '127.0.0.1:0', '--broker-listen', '127.0.0.1:0', '--console', '127.0.0.1:0',
    '--topic', 'orders:4', '--clock', 'manual'], (line) => line.startsWith('ready ') && line)
  const field = (name) => ready.split(`${name}=`)[1].split(' ')[0]
  const page = `http://${field('console')}`
  const driver = `http://127.0.0.1:${await start('chromedriver', ['--port=0'], (line) => (/successfully on port (\d+)/.exec(line) || [])[1])}`
  const api = async (method, path, body) => {
    const response = await fetch(page + path, { method, body: body && JSON.stringify(body) })
    const text = await response.text()
    assert.ok(response.ok, `${path}: ${text}`)
    return text && JSON.parse(text)
  }

  // What there is to see: also what must never run.
  const evil = '<img src=x onerror="window.broken=1"><script>window.broken=1</script>\u001b[31m\u202e'
  await api('POST', '/v1/messages', { topic: 'orders', body: '{"order": 42, "total": 17.5}', tag: 'created', keys: ['k-42'] })
  await api('POST', '/v1/messages', { topic: 'orders', body: evil, tag: 'evil', keys: ['evil'], properties: { note: evil } })
  await api('POST', '/v1/messages', { topic: 'orders', body: { base64: '/wABAgM=' }, tag: 'bytes' })
  await api('POST', '/v1/messages', { topic: 'orders', body: 'in two hours', delay_level: 18 })
  await api('POST', '/v1/messages', { topic: '%DLQ%billing', body: 'nobody wanted me', keys: ['dead-1'] })
  const subscription = { topic: 'orders', subString: '*', expressionType: 'TAG', subVersion: 1, tagsSet: [], codeSet: [] }
  const consumer = { groupName: 'billing', consumeType: 'CONSUME_PASSIVELY', messageModel: 'CLUSTERING',
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET', subscriptionDataSet: [subscription] }
  const member = await request(field('broker'), 34, {}, JSON.stringify({ clientID: 'worker@1', consumerDataSet: [consumer], producerDataSet: [] }))

  const options = { args: ['--headless=new', '--no-sandbox', '--disable-gpu', '--window-size=1280,860', '--disable-dev-shm-usage'] }
  const wire = async (method, path, body) => {
    const response = await fetch(driver + path, { method, body: body === undefined ? undefined : JSON.stringify(body) })
    const { value } = await response.json()
    if (!response.ok) throw new Error(`${path}: ${value.error}: ${value.message}`)
    return value
  }
  const { sessionId } = await wire('POST', '/session', { capabilities: { alwaysMatch: { browserName: 'chrome', 'goog:chromeOptions': options } } })
  const session = (method, path, body) => wire(method, `/session/${sessionId}${path}`, body)
  endSession = () => session('DELETE', '')
  const run = (script, ...args) => session('POST', '/execute/sync', { script, args })
  const text = () => run('return document.querySelector("#view").innerText')
  const has = (wanted) => until(`"${wanted}" in the page`, async () => (await text()).includes(wanted))
  const find = async (css) => Object.values(await until(css, () => session('POST', '/element', { using: 'css selector', value: css }).catch(() => null)))[0]
  // The page draws itself anew every second: what was found may be gone.
  const click = (css) => until(`a click on ${css}`, async () => {
    try { await session('POST', `/element/${await find(css)}/click`, {}); return true } catch (error) {
      if (/stale|intercepted|not interactable/.test(error.message)) return false
      throw error
    }
  })
  const clickText = (css, wanted) => until(`a click on "${wanted}"`, () => run(
    'const e = [...document.querySelectorAll(arguments[0])].find((e) => e.textContent.includes(arguments[1])); if (e) e.click(); return !!e', css, wanted))
  const keys = (value) => session('POST', '/actions', { actions: [{ type: 'key', id: 'k',
    actions: [...value].flatMap((key) => [{ type: 'keyDown', value: key }, { type: 'keyUp', value: key }]) }] })
  const type = async (css, value) => session('POST', `/element/${await find(css)}/value`, { text: value })
  const picture = async (name) => writeFileSync(`${pictures}/${name}.png`, Buffer.from(await session('GET', '/screenshot'), 'base64'))
  lookAtFailure = () => picture('failure')
  const view = async (name) => {
    await clickText('#tabs button', name)
    await until(`the view ${name}`, () => run('return document.body.dataset.drawn === arguments[0]', name))
  }

  await session('POST', '/url', { url: page })
  await has('orders')
  await picture('topics')
  await clickText('tr.link', 'orders')
  await has('k-42')
  await has('evil')
  await picture('messages')

  // A message: its body in three forms, its way; what stands in it is shown and not run.
  await clickText('tr.link', 'evil')
  await until('the way of the message', async () => (await run('return document.querySelector("#way")?.innerText || ""')).includes('stored'))
  const body = await run('return document.querySelector("#body").textContent')
  assert.ok(body.includes('<script>') && body.includes('\u241b') && !/[\u001b\u202e]/.test(body), JSON.stringify(body))
  await picture('message')
  await clickText('dialog .bar button', 'hex')
  assert.ok((await run('return document.querySelector("#body").textContent')).startsWith('000000  3c 69 6d 67'))
  await keys('\ue00c')
  await until('the dialog to close', () => run('return !document.querySelector("dialog").open'))
  assert.equal(await run('return window.broken === undefined'), true)

  // Search by key, by keyboard alone.
  await keys('/')
  await until('the search field', () => run('return document.activeElement.id === "search"'))
  await keys('k-42\ue007')
  await until('only what was searched for', async () => { const seen = await text(); return seen.includes('k-42') && !seen.includes('evil') })
  await run('document.activeElement.blur()')
  await keys('j')
  await keys('\ue007')
  await until('the message', () => run('return document.querySelector("dialog").open'))
  await clickText('dialog .bar button', 'JSON')
  assert.ok((await run('return document.querySelector("#body").textContent')).includes('"total": 17.5'))
  await clickText('dialog button', 'Close')

  await view('Groups')
  await has('worker@1')
  await picture('groups')

  await view('Waiting')
  await has('in two hours')
  await picture('waiting')
  await view('Clock')
  await clickText('#view button', '+ 2 h')
  await until('the clock to be turned', async () => (await api('GET', '/v1/delayed')).length === 0)
  await picture('clock')

  await view('Dead letters')
  await has('dead-1')
  await picture('dead-letters')
  await click('button.replay')
  await until('the dead letter to be sent again', async () => (await api('GET', '/v1/messages?topic=%25RETRY%25billing')).length === 1)

  await view('Faults')
  await type('#fault input[name=request]', 'send')
  await type('#fault input[name=times]', '3')
  await click('#fault button')
  await until('the fault', async () => (await api('GET', '/v1/faults')).length === 1)
  await run('document.activeElement.blur()')
  await has('request=send')
  await picture('faults')
  await clickText('#view button', 'Remove')
  await until('the fault to be gone', async () => (await api('GET', '/v1/faults')).length === 0)

  await view('Journal')
  await has('HEART_BEAT')
  await picture('journal')
  await keys('t')
  await keys('1')
  await until('the first view', () => run('return document.body.dataset.drawn === "Topics"'))
  await picture('dark')
  assert.equal(await run('return document.documentElement.classList.contains("dark")'), true)

  const log = await session('POST', '/se/log', { type: 'browser' })
  assert.deepEqual(log.filter((entry) => entry.level === 'SEVERE'), [])
  const paint = await run('return performance.getEntriesByName("first-contentful-paint")[0]?.startTime')
  console.log(`first paint after ${Math.round(paint)} ms`)
  member.destroy()
}

try {
  await main()
  console.log('the page works')
} finally {
  // The browser outlives its driver otherwise.
  await endSession().catch((error) => console.error(error.message))
  children.forEach((child) => { child.removeAllListeners('exit'); child.kill() })
}
process.exit(0)
