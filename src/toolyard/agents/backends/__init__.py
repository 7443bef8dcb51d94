"""Models behind one small protocol: chat completions, Anthropic's Messages, and the Claude Agent SDK."""
