# The program that training_loop.cpp is, as it is written with PyTorch. What it prints is stored in training_loop.py.txt;
# the C++ program prints the same lines, and a last one on how often it compiled.
import torch


class Linear(torch.nn.Module):
    def __init__(self, inputs, outputs, scale):
        super().__init__()
        values = torch.sin(torch.arange(inputs * outputs, dtype=torch.float64) * 1.7)
        self.weight = torch.nn.Parameter(values.reshape(inputs, outputs) * scale)
        self.bias = torch.nn.Parameter(torch.zeros(outputs, dtype=torch.float64))

    def forward(self, x):
        return x @ self.weight + self.bias


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = Linear(1, 16, 1.0)
        self.output = Linear(16, 1, 0.3)

    def forward(self, x):
        return self.output(torch.tanh(self.hidden(x)))


x = (torch.arange(64, dtype=torch.float64) / 32 - 1).reshape(64, 1)
y = torch.sin(x * 3)
held_out = (torch.arange(50, dtype=torch.float64) / 25 - 0.99).reshape(50, 1)

model = Model()
loss_of = torch.compile(lambda x, y: torch.mean((model(x) - y) ** 2), backend="aot_eager")
optimiser = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimiser, step_size=100, gamma=0.5)

for name, parameter in model.named_parameters():
    print(name, tuple(parameter.shape))
seen = 0


def half(gradient):
    global seen
    seen += 1
    return gradient * 0.5


hook = model.hidden.weight.register_hook(half)

for epoch in range(1, 301):
    optimiser.zero_grad()
    loss = loss_of(x, y)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()
    scheduler.step()
    if epoch % 50 == 0:
        with torch.no_grad():
            error = loss_of(held_out, torch.sin(held_out * 3))
        print(f"epoch {epoch:3d}: loss {loss.item():.6f}, held out {error.item():.6f}, "
              f"norm {norm.item():.6f}, next rate {scheduler.get_last_lr()[0]:.3f}")
hook.remove()
print(f"{seen} gradients seen")
