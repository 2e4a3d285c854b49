// What Highway compiles for. Included before any header of Highway.
#pragma once

// Highway gives up its portable target EMU128 for g++ before 12.3, because of a wrong vectorisation
// that is known on 32-bit and PowerPC machines only; its one-lane substitute could not run the
// kernels. The golden vectors run on EMU128 too.
#ifndef HWY_BROKEN_EMU128
#define HWY_BROKEN_EMU128 0
#endif
