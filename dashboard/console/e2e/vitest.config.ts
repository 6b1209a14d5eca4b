import { defineConfig } from 'vitest/config'

// The short form is two files side by side, the long one a single file: it tells which controls no test has touched. What is tried on all screens belongs to it.
export default defineConfig({
  test: {
    // Whatever is waited for has as long as its test: how soon it comes is a matter of what else the machine does.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000 } },
    include: process.env['FLOE_FULL'] === '1' ? ['**/all.test.ts'] : ['**/{first,second}.test.ts'],
    maxWorkers: 2,
    reporters: ['verbose'],
  },
})
