// Sends the first requests as soon as the modules that they need are there; app.js finds the answers in context.js.

import { loadImages, loadInfo } from './context.js';
import { current } from './router.js';

Promise.allSettled([loadImages(), loadInfo(current())]);
