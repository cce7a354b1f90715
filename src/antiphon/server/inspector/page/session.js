// What this tab remembers: the key and the theme. Both end with the tab.

const KEY = "antiphon-key";
const THEME = "antiphon-theme";

export const key = () => sessionStorage.getItem(KEY);
export const keepKey = (value) => sessionStorage.setItem(KEY, value);
export const forgetKey = () => sessionStorage.removeItem(KEY);

export const theme = () => sessionStorage.getItem(THEME);
export const keepTheme = (value) => sessionStorage.setItem(THEME, value);
