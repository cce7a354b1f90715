// The sign-in: a key of this gateway, kept in this tab only.

import { make, show } from "./elements.js";
import * as session from "./session.js";

export class SignInView {
  title = "Sign in";

  /** @param {() => Promise<boolean>} signIn tries the key that is kept; whether the gateway took it */
  constructor(place, signIn) {
    this.signIn = signIn;
    this.field = make("input", {
      type: "password",
      id: "key",
      autocomplete: "off",
      required: true,
      "aria-describedby": "key-problem",
    });
    this.problem = make("p.problem", { id: "key-problem", role: "alert" });
    show(
      place,
      make(
        "div.sign-in",
        {},
        make("h1", {}, "Sign in"),
        make("p.dim", {}, "This gateway asks for a key. With a key you see its requests; with the admin key, everybody's."),
        make(
          "form",
          { onsubmit: (event) => this.submit(event) },
          make("label", { for: "key" }, "Key", this.field),
          this.problem,
          make("button.main", { type: "submit" }, "Sign in"),
        ),
      ),
    );
    this.field.focus();
  }

  async submit(event) {
    event.preventDefault();
    session.keepKey(this.field.value.trim());
    if (await this.signIn()) return;
    session.forgetKey();
    this.problem.textContent = "The gateway does not know this key.";
    this.field.select();
  }

  close() {}
}
