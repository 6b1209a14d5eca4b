// Half of the short form: the shell, and who may do what. It and second.test.ts have a browser each, as tests mostly wait for a page.
import './base'
import './writes'
