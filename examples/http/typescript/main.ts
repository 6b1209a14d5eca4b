// Orders from a stream become payments of an action and messages of a queue, with a client that a
// generator has made from the OpenAPI description.
import createClient from 'openapi-fetch'
import type { paths } from './api.js'

declare const process: { env: Record<string, string | undefined> }

const floe = createClient<paths>({ baseUrl: process.env['FLOE_URL'] ?? 'http://127.0.0.1:9002' })

// value returns the response, and throws its error.
function value<T>(answer: { data?: T; error?: { error: string } }): T {
  if (answer.data === undefined) throw new Error(answer.error?.error ?? 'no response')
  return answer.data
}

const orders = { params: { path: { name: 'ts-orders' } } }
const group = { params: { path: { name: 'ts-orders', group: 'billing' } } }
const worker = { params: { path: { id: 'ts-worker' } } }

value(await floe.PUT('/api/v1/streams/{name}', { ...orders, body: { partitions: 2 } }))
const messages = [17, 4].map((total, i) => ({ key: `order-${i + 1}`, payload: JSON.stringify({ total }) }))
const { ids } = value(await floe.POST('/api/v1/streams/{name}/messages', { ...orders, body: { messages } }))
console.log(`${ids.length} orders appended`)

value(await floe.PUT('/api/v1/streams/{name}/groups/{group}', { ...group, body: { start: 'earliest' } }))
value(await floe.PUT('/api/v1/actions/{name}', { params: { path: { name: 'ts-pay' } }, body: {} }))
value(await floe.PUT('/api/v1/workers/{id}', { ...worker, body: { actions: ['ts-pay'] } }))

let paid = 0
while (paid < messages.length) {
  const { records } = value(
    await floe.POST('/api/v1/streams/{name}/groups/{group}/read', { ...group, body: { consumer: 'one', limit: 1, wait_ms: 5000 } }),
  )
  for (const { key, payload, ref } of records) {
    // The record is acknowledged, the payment is invoked and the mail is enqueued together, or not at all.
    value(
      await floe.POST('/api/v1/txn', {
        body: {
          do: [
            { op: 'stream.ack', name: 'ts-orders', group: 'billing', refs: [ref] },
            { op: 'action.invoke', name: 'ts-pay', input: JSON.parse(payload) },
            { op: 'queue.enqueue', name: 'ts-mails', payload: `thanks for ${key}` },
          ],
        },
      }),
    )
  }
  const { runs } = value(await floe.POST('/api/v1/workers/{id}/await', { ...worker, body: { actions: ['ts-pay'], wait_ms: 5000 } }))
  for (const { run_id, attempt, input } of runs) {
    const { total } = input as { total: number }
    value(
      await floe.POST('/api/v1/workers/{id}/runs/{run}/complete', {
        params: { path: { id: 'ts-worker', run: run_id } },
        body: { output: { receipt: 100 * total } },
      }),
    )
    paid++
    console.log(`paid ${total}, attempt ${attempt}`)
  }
}

const mails = value(
  await floe.POST('/api/v1/queues/{name}/dequeue', { params: { path: { name: 'ts-mails' } }, body: { max: 10, wait_ms: 5000 } }),
)
for (const { payload } of mails.messages) console.log(payload)
const receipts = mails.messages.map((m) => m.receipt)
value(await floe.POST('/api/v1/queues/{name}/ack', { params: { path: { name: 'ts-mails' } }, body: { receipts } }))

const missing = await floe.GET('/api/v1/queues/{name}', { params: { path: { name: 'nothing' } } })
console.log(`${missing.response.status}: ${missing.error?.error}`)
