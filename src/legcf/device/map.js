// SPDX-License-Identifier: Apache-2.0
// A page without a server has no map: laying it out takes seconds.
export const showMap = () => {};
export const redrawMap = () => {};
