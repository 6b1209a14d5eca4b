import { defineConfig } from 'vitest/config'

// The short form is two files side by side, the long one a single file: it tells which controls no test has touched. What is tried on all screens belongs to it.
export default defineConfig({
  test: {
    testTimeout: 30_000,
    hookTimeout: 60_000,
    include: process.env['FLOE_FULL'] === '1' ? ['**/all.test.ts'] : ['**/{first,second}.test.ts'],
    maxWorkers: 2,
    reporters: ['verbose'],
  },
})
